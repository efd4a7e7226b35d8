//! Where the fields of a text without quotes end.

use crate::kernels::{ByteMasks, MASKED_BYTES, byte_masks};

/// The ends of all fields of whole records.
#[derive(Debug, Default)]
pub(super) struct FieldEnds {
    ends: Vec<u32>,
    /// Fields of a record.
    columns: usize,
}

impl FieldEnds {
    /// Finds the ends; false for a text with quotes, with carriage returns that end a line alone,
    /// with empty lines, with records of another number of fields, or of 4 GiB and more.
    pub(super) fn find(&mut self, text: &[u8], delimiter: u8, columns: usize) -> bool {
        self.ends.clear();
        self.columns = columns;
        if u32::try_from(text.len()).is_err() || columns == 0 {
            return false;
        }
        let mut lines = 0;
        let mut add = |at: usize, masks: ByteMasks, ends: &mut Vec<u32>| {
            if masks.quotes != 0 {
                return false;
            }
            lines += masks.line_feeds.count_ones() as usize;
            let mut returns = masks.returns;
            while returns != 0 {
                let place = at + returns.trailing_zeros() as usize;
                if text.get(place + 1) != Some(&b'\n') {
                    return false;
                }
                returns &= returns - 1;
            }
            let mut found = masks.delimiters | masks.line_feeds;
            while found != 0 {
                ends.push((at + found.trailing_zeros() as usize) as u32);
                found &= found - 1;
            }
            true
        };
        let (blocks, rest) = text.as_chunks::<MASKED_BYTES>();
        for (number, block) in blocks.iter().enumerate() {
            self.ends.reserve(MASKED_BYTES);
            if !add(number * MASKED_BYTES, byte_masks(block, delimiter), &mut self.ends) {
                return false;
            }
        }
        let mut last = [0; MASKED_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let masks = byte_masks(&last, delimiter).of_first(rest.len());
        if !add(blocks.len() * MASKED_BYTES, masks, &mut self.ends) {
            return false;
        }
        if text.last().is_some_and(|&byte| byte != b'\n') {
            self.ends.push(text.len() as u32);
            lines += 1;
        }
        let (records, rest) = (self.ends.chunks_exact(columns), self.ends.len() % columns);
        let is_end = |&end: &u32| text.get(end as usize).is_none_or(|&byte| byte == b'\n');
        let is_empty = |(start, end)| start == end;
        let is_regular = rest == 0 && lines == records.len();
        is_regular
            && records.clone().all(|record| record.last().is_some_and(is_end))
            && (columns > 1 || (0..lines).all(|row| !is_empty(self.place(text, row, 0))))
    }

    /// The number of records.
    pub(super) fn rows(&self) -> usize {
        self.ends.len() / self.columns
    }

    /// Where a field of the text begins and ends, without the carriage return before a line feed.
    #[inline]
    pub(super) fn place(&self, text: &[u8], row: usize, column: usize) -> (usize, usize) {
        let at = row * self.columns + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize + 1 };
        let end = self.ends[at] as usize;
        let is_last = column + 1 == self.columns;
        let has_return = is_last && end > start && text[end - 1] == b'\r';
        (start, end - usize::from(has_return))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str, columns: usize) -> Option<Vec<Vec<String>>> {
        let mut ends = FieldEnds::default();
        ends.find(text.as_bytes(), b',', columns).then(|| {
            let field = |row, column| {
                let (start, end) = ends.place(text.as_bytes(), row, column);
                text[start..end].to_owned()
            };
            let record = |row| (0..columns).map(|column| field(row, column)).collect();
            (0..ends.rows()).map(record).collect()
        })
    }

    #[test]
    fn what_is_not_regular_is_left_to_others() {
        for (text, columns) in [
            ("1,\"2\"\n", 2),
            ("1,2\n3\n", 2),
            ("1,2\n\n3,4\n", 2),
            ("1,2\n3,4,5\n", 2),
            ("1,2\n3,4,5,6\n", 2),
            ("1,2\n,3\n4,5,6\n7\n", 2),
            ("1,2\r3,4\n", 2),
            ("1,2\r", 2),
            ("1\n\n2\n", 1),
            ("1\r\n\r\n2\n", 1),
            ("1", 2),
        ] {
            assert_eq!(fields(text, columns), None, "{text:?}");
        }
        assert_eq!(fields("", 3), Some(Vec::new()));
        let expected = vec![vec!["a".to_owned(), String::new()], vec![String::new(), "b".into()]];
        for text in ["a,\n,b\n", "a,\n,b", "a,\r\n,b\r\n"] {
            assert_eq!(fields(text, 2).as_ref(), Some(&expected), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn fields_are_those_that_were_written(
            records in proptest::collection::vec(
                proptest::collection::vec("[a-d 0-9]{0,30}", 3..4), 0..30),
            line_end in "\n|\r\n",
            ends in any::<bool>(),
        ) {
            let lines: Vec<String> = records.iter().map(|record| record.join(",")).collect();
            let text = lines.join(&line_end) + if ends && !lines.is_empty() { &line_end } else { "" };
            prop_assert_eq!(fields(&text, 3), Some(records));
        }
    }
}
