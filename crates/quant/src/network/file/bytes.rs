//! Numbers, windows and weights in little endian, written and read back with every length checked.

use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::FileError;
use crate::scheme::ActivationScheme;
use crate::weights::QuantizedWeights;

/// Numbers in little endian.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, number: usize) {
        let number = u32::try_from(number).expect("checked shapes stay below 32 bits");
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn numbers(&mut self, numbers: &[usize]) {
        numbers.iter().for_each(|&number| self.number(number));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend(bytes);
    }

    pub(super) fn reals(&mut self, values: &[f32]) {
        self.number(values.len());
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
    }

    pub(super) fn window(&mut self, geometry: &ConvGeometry) {
        let ConvShape { groups, kernel, stride, padding, dilation, .. } = *geometry.shape();
        self.number(groups);
        [kernel, stride, padding, dilation].iter().for_each(|both| self.numbers(both));
    }

    pub(super) fn weights(&mut self, weights: &QuantizedWeights) {
        self.number(weights.channels());
        self.number(weights.each());
        weights.scales().iter().for_each(|scale| self.0.extend(scale.to_le_bytes()));
        weights.bias().iter().for_each(|bias| self.0.extend(bias.to_le_bytes()));
        self.0.extend(weights.values().iter().map(|&value| value as u8));
    }
}

/// Reads what [`Writer`] writes; nothing is taken that is not there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], FileError> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(FileError::Truncated { what, at: self.bytes.len() })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], FileError> {
        Ok(self.take(N, what)?.try_into().expect("as many bytes as were asked for"))
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<usize, FileError> {
        Ok(u32::from_le_bytes(self.array(what)?) as usize)
    }

    pub(super) fn numbers<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[usize; N], FileError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number(what)?;
        }
        Ok(numbers)
    }

    pub(super) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], FileError> {
        let len = self.number(what)?;
        self.take(len, what)
    }

    /// A window over images of one shape that gives images of another.
    pub(super) fn window(
        &mut self,
        layer: usize,
        from: [usize; 3],
        to: [usize; 3],
    ) -> Result<ConvGeometry, FileError> {
        let groups = self.number("groups")?;
        let [kernel, stride, padding, dilation] = [
            self.numbers("a kernel")?,
            self.numbers("a stride")?,
            self.numbers("a padding")?,
            self.numbers("a dilation")?,
        ];
        let shape = ConvShape::new(1, [from[0], to[0]], [from[1], from[2]], kernel);
        let shape = ConvShape { groups, stride, padding, dilation, ..shape };
        let geometry =
            ConvGeometry::try_new(shape).map_err(|source| FileError::Geometry { layer, source })?;
        if geometry.output() == [to[1], to[2]] {
            Ok(geometry)
        } else {
            Err(FileError::Value { layer, what: "the shape" })
        }
    }

    pub(super) fn weights(
        &mut self,
        layer: usize,
        input: ActivationScheme,
    ) -> Result<QuantizedWeights, FileError> {
        let channels = self.number("the number of channels")?;
        let each = self.number("the number of weights")?;
        let too_many = FileError::Value { layer, what: "the number of weights" };
        let all = channels.checked_mul(each).ok_or(too_many)?;
        let scales =
            fours(self.take(4 * channels, "the scales")?).map(f32::from_le_bytes).collect();
        let bias = fours(self.take(4 * channels, "the biases")?).map(i32::from_le_bytes).collect();
        let values = self.take(all, "the weights")?.iter().map(|&value| value as i8).collect();
        QuantizedWeights::try_new(values, scales, bias, input)
            .map_err(|source| FileError::Weights { layer, source })
    }

    /// Numbers in f32, all of them finite.
    pub(super) fn reals(
        &mut self,
        layer: usize,
        what: &'static str,
    ) -> Result<Vec<f32>, FileError> {
        let len = self.number(what)?;
        let bytes = len.checked_mul(4).ok_or(FileError::Value { layer, what })?;
        let values: Vec<f32> = fours(self.take(bytes, what)?).map(f32::from_le_bytes).collect();
        let is_finite = values.iter().all(|value| value.is_finite());
        is_finite.then_some(values).ok_or(FileError::Value { layer, what })
    }
}

fn fours(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]])
}
