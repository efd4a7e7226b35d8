//! Quotes that are not closed, or closed before the end of their field.
//!
//! The parser accepts both: an open quote makes the rest of a file one field, and text after a
//! closing quote is a part of the field.

/// Why a record is not what its author meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuoteFault {
    /// A field begins with a quote, and the file ends before the closing one.
    Open,
    /// Text follows the closing quote of a field.
    TextAfter,
}

impl QuoteFault {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Open => {
                "a field begins with a quote that is not closed before the end of the file; close \
                 it or remove it"
            }
            Self::TextAfter => {
                "text follows the closing quote of a field; write a quote inside a field as two"
            }
        }
    }
}

/// Where the bytes read so far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside quoted fields.
    Outside,
    /// In a quoted field.
    Quoted,
    /// After a quote in a quoted field: the closing one, or the first of two.
    AfterQuote,
}

/// Follows the quotes of a file from its first byte, and finds the first fault.
#[derive(Debug)]
pub(super) struct Quotes {
    delimiter: u8,
    state: State,
    /// The number of bytes read so far, and the last of them.
    bytes: u64,
    last: u8,
    /// Where the last quoted field begins.
    opened: u64,
    fault: Option<(u64, QuoteFault)>,
    /// Where the last record ends that is known to end; 0 if none is.
    record_end: u64,
}

impl Quotes {
    pub(super) const fn new(delimiter: u8) -> Self {
        let state = State::Outside;
        Self { delimiter, state, bytes: 0, last: b'\n', opened: 0, fault: None, record_end: 0 }
    }

    /// The first fault that begins before a byte.
    pub(super) fn fault_before(&self, byte: u64) -> Option<QuoteFault> {
        self.fault.filter(|(at, _)| *at < byte).map(|(_, fault)| fault)
    }

    /// Whether the bytes read so far have a fault.
    pub(super) const fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// The number of bytes through the end of the last record that is known to end.
    pub(super) const fn record_end(&self) -> u64 {
        self.record_end
    }

    /// Follows the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Outside => {
                    let quote = find_quote(&bytes[at..]);
                    let outside = &bytes[at..quote.map_or(bytes.len(), |quote| at + quote)];
                    if let Some(end) = last_line_end(outside) {
                        self.record_end = self.bytes + (at + end) as u64;
                    }
                    let Some(quote) = quote else { break };
                    at += quote;
                    let before = if at == 0 { self.last } else { bytes[at - 1] };
                    let place = self.bytes + at as u64;
                    if self.ends_field(before) {
                        (self.state, self.opened) = (State::Quoted, place);
                    }
                    at += 1;
                }
                State::Quoted => {
                    let Some(quote) = find_quote(&bytes[at..]) else { break };
                    self.state = State::AfterQuote;
                    at += quote + 1;
                }
                State::AfterQuote => match bytes[at] {
                    b'"' => {
                        self.state = State::Quoted;
                        at += 1;
                    }
                    byte if self.ends_field(byte) => self.state = State::Outside,
                    _ => {
                        self.fault = Some((self.bytes + at as u64, QuoteFault::TextAfter));
                        return;
                    }
                },
            }
        }
        self.bytes += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    /// Ends the file.
    pub(super) fn end(&mut self) {
        if self.state == State::Quoted && self.fault.is_none() {
            self.fault = Some((self.opened, QuoteFault::Open));
        }
    }

    const fn ends_field(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'\r'
    }
}

/// The end of the last line; a carriage return ends one if it is known that no line feed follows.
fn last_line_end(bytes: &[u8]) -> Option<usize> {
    let line_feed = bytes.iter().rposition(|&byte| byte == b'\n');
    let last = line_feed.or_else(|| bytes.windows(2).rposition(|pair| pair[0] == b'\r'))?;
    Some(last + 1)
}

/// The place of the first quote.
pub(super) fn find_quote(bytes: &[u8]) -> Option<usize> {
    /// Blocks without a quote are skipped by a search of whole words.
    const BLOCK: usize = 256;
    let (at, block) = bytes.chunks(BLOCK).enumerate().find(|(_, block)| block.contains(&b'"'))?;
    let place = block.iter().position(|&byte| byte == b'"')?;
    Some(at * BLOCK + place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &[u8], piece: usize) -> Option<(u64, QuoteFault)> {
        let mut quotes = Quotes::new(b',');
        text.chunks(piece).for_each(|piece| quotes.read(piece));
        quotes.end();
        quotes.fault
    }

    #[test]
    fn a_fault_is_found_where_it_begins_however_the_bytes_are_read() {
        for (text, expected) in [
            ("", None),
            ("a,b\n\"c\",d\n", None),
            ("\"a \"\"b\"\", c\",\"\"\r\n\"\",\"x\ny\"", None),
            // A quote that does not begin a field is a part of it.
            ("5\",6\"\nan \"odd\" one,x\n", None),
            ("a,b\n1,\"c\n2,d\n", Some((6, QuoteFault::Open))),
            ("\"", Some((0, QuoteFault::Open))),
            ("\"\"\"", Some((0, QuoteFault::Open))),
            ("a,\"5\" wide\",b\n", Some((5, QuoteFault::TextAfter))),
            ("a,\"b\" ,c\n", Some((5, QuoteFault::TextAfter))),
            ("abc\"a,b\n", None),
        ] {
            for piece in [1, 2, 3, 1000] {
                assert_eq!(fault(text.as_bytes(), piece), expected, "{text:?} by {piece}");
            }
        }
        let long = [b"x,".repeat(1000), b"\"y".to_vec()].concat();
        assert_eq!(fault(&long, 700), Some((2000, QuoteFault::Open)));
    }

    proptest! {
        /// Whatever a writer of CSV writes has no fault.
        #[test]
        fn written_fields_have_no_fault(
            records in proptest::collection::vec(
                proptest::collection::vec("[a-c\",\n\r ]{0,6}", 3..4), 1..20),
            piece in 1_usize..40,
        ) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            for record in &records {
                writer.write_record(record).unwrap();
            }
            prop_assert_eq!(fault(&writer.into_inner().unwrap(), piece), None);
        }
    }
}
