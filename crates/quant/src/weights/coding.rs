//! Weights of fewer than eight bits as a file stores them: packed codes.

use super::WeightError;
use super::format::WeightFormat;
use super::grid::Grid;

/// How bytes that are multiplied become packed codes, and back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coding {
    pub(crate) format: WeightFormat,
    /// Weights of a channel.
    pub(crate) each: usize,
    /// `[channels][groups]`.
    pub(crate) multipliers: Vec<u8>,
    /// `[channels][groups]`.
    pub(crate) zeros: Vec<u8>,
}

impl From<&Grid> for Coding {
    fn from(grid: &Grid) -> Self {
        let Grid { format, each, multipliers, zeros, .. } = grid;
        let (multipliers, zeros) = (multipliers.clone(), zeros.clone());
        Self { format: *format, each: *each, multipliers, zeros }
    }
}

impl Coding {
    /// Checks the multipliers and zero points of a file.
    pub(crate) fn try_new(
        format: WeightFormat,
        each: usize,
        channels: usize,
        multipliers: Vec<u8>,
        zeros: Vec<u8>,
    ) -> Result<Self, WeightError> {
        let groups = channels * format.groups(each);
        super::check_length("multipliers", groups, multipliers.len())?;
        super::check_length("zero points", groups, zeros.len())?;
        let most = format.most_multiplier();
        let is_bad = |multiplier: &u8| *multiplier == 0 || i32::from(*multiplier) > most;
        if let Some(group) = multipliers.iter().position(is_bad) {
            return Err(WeightError::Code { what: "the multiplier of group", index: group });
        }
        let most = if format.is_asymmetric() { format.most() } else { 0 };
        if let Some(group) = zeros.iter().position(|zero| i32::from(*zero) > most) {
            return Err(WeightError::Code { what: "the zero point of group", index: group });
        }
        Ok(Self { format, each, multipliers, zeros })
    }

    /// Bytes of the packed codes of a channel.
    pub(crate) fn row(&self) -> usize {
        (self.each * usize::from(self.format.bits())).div_ceil(8)
    }

    /// The code of level 0 in a group.
    fn zero(&self, group: usize) -> i32 {
        match self.format.is_asymmetric() {
            true => self.zeros[group].into(),
            false => self.format.most(),
        }
    }

    /// The code of a weight's signed byte; not of one bit.
    pub(crate) fn code(&self, channel: usize, at: usize, value: i8) -> u8 {
        let group = channel * self.format.groups(self.each) + self.format.group_of(at);
        (i32::from(value) / i32::from(self.multipliers[group]) + self.zero(group)) as u8
    }

    /// The step between the codes of a group, in scales of its channel, and the level of code 0.
    pub(crate) fn step_and_least(&self, group: usize) -> [i32; 2] {
        [self.multipliers[group].into(), -self.zero(group)]
    }

    /// Packs the signed bytes of weights `[channels][each]`; the first code is in the lowest bits.
    pub(crate) fn pack(&self, values: &[i8]) -> Vec<u8> {
        let (bits, groups) = (usize::from(self.format.bits()), self.format.groups(self.each));
        let mut packed = vec![0; values.len() / self.each * self.row()];
        let rows = packed.chunks_exact_mut(self.row()).zip(values.chunks_exact(self.each));
        for (channel, (row, values)) in rows.enumerate() {
            for (at, &value) in values.iter().enumerate() {
                let group = channel * groups + self.format.group_of(at);
                let level = i32::from(value) / i32::from(self.multipliers[group]);
                // Of one bit, −1 and 1 are the codes 0 and 1.
                let code = if bits == 1 { (level + 1) / 2 } else { level + self.zero(group) };
                let wide = (code as u16) << (at * bits % 8);
                row[at * bits / 8] |= wide as u8;
                if wide > 255 {
                    row[at * bits / 8 + 1] |= (wide >> 8) as u8;
                }
            }
        }
        packed
    }

    /// The signed bytes of packed codes.
    ///
    /// # Errors
    /// [`WeightError`] for another length, a code that the format does not have, or bits after the
    /// last code that are not zero.
    pub(crate) fn try_unpack(
        &self,
        packed: &[u8],
        channels: usize,
    ) -> Result<Vec<i8>, WeightError> {
        super::check_length("bytes of codes", channels * self.row(), packed.len())?;
        let (bits, groups) = (usize::from(self.format.bits()), self.format.groups(self.each));
        let mut values = Vec::with_capacity(channels * self.each);
        for (channel, row) in packed.chunks_exact(self.row()).enumerate() {
            for at in 0..self.each {
                let first = at * bits / 8;
                let wide =
                    u16::from(row[first]) | u16::from(*row.get(first + 1).unwrap_or(&0)) << 8;
                let code = i32::from(wide >> (at * bits % 8)) & ((1 << bits) - 1);
                let group = channel * groups + self.format.group_of(at);
                let level = if bits == 1 { 2 * code - 1 } else { code - self.zero(group) };
                if !self.format.is_asymmetric() && level > self.format.most() {
                    let index = channel * self.each + at;
                    return Err(WeightError::Code { what: "the code of weight", index });
                }
                values.push((level * i32::from(self.multipliers[group])) as i8);
            }
            let used = self.each * bits;
            if !used.is_multiple_of(8) && row[used / 8] >> (used % 8) != 0 {
                let index = (channel + 1) * self.each - 1;
                return Err(WeightError::Code { what: "a bit after the code of weight", index });
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::ActivationScheme;

    #[test]
    fn codes_are_packed_from_the_lowest_bit() {
        let coding = |bits| {
            let format = WeightFormat::try_new(bits).expect("supported");
            Coding::try_new(format, 3, 1, vec![1], vec![0]).expect("valid")
        };
        // 4 bits: codes 7 + 7, 7 − 7 and 7 + 1; 3 bits: 6, 0 and 4 from bit 0, 3 and 6.
        assert_eq!(coding(4).pack(&[7, -7, 1]), [0x0E, 0x08]);
        assert_eq!(coding(3).pack(&[3, -3, 1]), [0b0000_0110, 0b1]);
        assert_eq!(coding(1).pack(&[1, -1, 1]), [0b101]);
        let damaged = coding(4).try_unpack(&[0x0F, 0], 1).expect_err("a code of 15");
        assert_eq!(damaged, WeightError::Code { what: "the code of weight", index: 0 });
        let damaged = coding(1).try_unpack(&[0b1101], 1).expect_err("a fourth code");
        assert_eq!(damaged.to_string(), "a bit after the code of weight 2 is invalid");
    }

    #[test]
    fn multipliers_and_zero_points_are_checked() {
        let format = WeightFormat::try_new(4).and_then(|format| format.try_groups_of(4));
        let format = format.and_then(WeightFormat::try_asymmetric).expect("supported");
        let new = |multipliers: [u8; 2], zeros: [u8; 2]| {
            Coding::try_new(format, 8, 1, multipliers.to_vec(), zeros.to_vec())
        };
        assert!(new([1, 8], [0, 15]).is_ok());
        for (multipliers, zeros) in [([0, 1], [0, 0]), ([1, 9], [0, 0]), ([1, 1], [16, 0])] {
            assert!(matches!(new(multipliers, zeros), Err(WeightError::Code { .. })));
        }
        let short = Coding::try_new(format, 8, 1, vec![1], vec![0, 0]);
        assert!(matches!(short, Err(WeightError::Length { expected: 2, got: 1, .. })));
    }

    #[test]
    fn every_format_is_unpacked_to_the_same_bytes() {
        let input = ActivationScheme::try_new(0.5, 128).expect("valid");
        for bits in [4, 3, 2, 1] {
            for is_asymmetric in [false, true] {
                for group in [None, Some(1), Some(4), Some(7), Some(100)] {
                    let mut format = WeightFormat::try_new(bits).expect("supported");
                    if is_asymmetric {
                        let Ok(shifted) = format.try_asymmetric() else { continue };
                        format = shifted;
                    }
                    if let Some(group) = group {
                        format = format.try_groups_of(group).expect("supported");
                    }
                    for each in [1, 7, 8, 9, 30] {
                        let weights: Vec<f32> =
                            (0..3 * each).map(|i| (i * 37 % 101) as f32 - 40.0).collect();
                        let grid = Grid::fit(&weights, &[1.0; 3], format, input).expect("finite");
                        let values = grid.bytes(&grid.nearest(&weights));
                        let coding = Coding::from(&grid);
                        let packed = coding.pack(&values);
                        assert_eq!(coding.try_unpack(&packed, 3), Ok(values), "{format} {each}");
                        let of_groups = coding.multipliers.len()
                            * (usize::from(group.is_some()) + usize::from(is_asymmetric));
                        assert_eq!(format.bytes(3, each), packed.len() + of_groups + 3 * 8);
                    }
                }
            }
        }
    }
}
