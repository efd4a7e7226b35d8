//! What NVIDIA's driver reports of cards: facts, and samples while a benchmark runs.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::samples::Sample;

const PROGRAM: &str = "nvidia-smi";

/// The facts of a card, in the order of [`Card::parse`].
const FACTS: &str = "index,uuid,name,driver_version,memory.total,memory.free,clocks.max.sm,\
                     clocks.max.mem,power.limit";

/// The values of a sample, in the order of [`super::samples::MEASURES`].
const SAMPLE: &str = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,memory.used";

/// Milliseconds between two samples.
const INTERVAL_MS: &str = "500";

/// A card.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card {
    pub(super) index: String,
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) memory_mib: Option<f64>,
    pub(super) free_mib: Option<f64>,
    pub(super) most_clock_mhz: Option<f64>,
    pub(super) most_memory_clock_mhz: Option<f64>,
    pub(super) power_limit_w: Option<f64>,
}

impl Card {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let [index, uuid, name, driver, rest @ ..] = &cells[..] else { return None };
        let numbers: Vec<_> = rest.iter().map(|cell| number(cell)).collect();
        let [memory_mib, free_mib, most_clock_mhz, most_memory_clock_mhz, power_limit_w] =
            numbers[..]
        else {
            return None;
        };
        let [index, uuid, name, driver] =
            [index, uuid, name, driver].map(|cell| (*cell).to_owned());
        Some(Self {
            index,
            uuid,
            name,
            driver,
            memory_mib,
            free_mib,
            most_clock_mhz,
            most_memory_clock_mhz,
            power_limit_w,
        })
    }

    /// The first number of the driver's version.
    pub(super) fn driver_major(&self) -> Option<u32> {
        self.driver.split('.').next()?.parse().ok()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name, "driver": self.driver, "memory_mib": self.memory_mib,
            "free_mib": self.free_mib, "max_clock_mhz": self.most_clock_mhz,
            "max_memory_clock_mhz": self.most_memory_clock_mhz,
            "power_limit_w": self.power_limit_w,
        })
    }
}

/// The cards that the driver lists.
///
/// # Errors
/// A line with the reason if there is no driver.
pub(super) fn cards() -> Result<Vec<Card>, String> {
    let printed = said(&[&format!("--query-gpu={FACTS}")])?;
    Ok(printed.lines().filter_map(Card::parse).collect())
}

/// The card that CUDA numbers 0, by the value of `CUDA_VISIBLE_DEVICES`.
pub(super) fn first<'a>(cards: &'a [Card], visible: Option<&str>) -> Option<&'a Card> {
    let Some(visible) = visible else { return cards.first() };
    // An empty list hides all cards.
    let named = visible.split(',').map(str::trim).next().filter(|name| !name.is_empty())?;
    cards.iter().find(|card| card.index == named || card.uuid.starts_with(named))
}

/// The values of a card now.
pub(super) fn sample(uuid: &str) -> Option<Sample> {
    let printed = said(&["-i", uuid, &format!("--query-gpu={SAMPLE}")]).ok()?;
    parse_sample(printed.lines().next()?)
}

/// Starts a process that prints a sample in a line each, until it is ended.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start_samples(uuid: &str) -> std::io::Result<Child> {
    let query = format!("--query-gpu={SAMPLE}");
    let mut command = Command::new(PROGRAM);
    command.args(["-i", uuid, &query, "--format=csv,noheader,nounits", "-lms", INTERVAL_MS]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Reads a line of samples; `None` for a line that is none.
pub(super) fn parse_sample(line: &str) -> Option<Sample> {
    let cells: Vec<_> = line.split(',').map(|cell| number(cell.trim())).collect();
    cells.try_into().ok()
}

/// A number; values that a card does not have are `[N/A]` or `[Not Supported]`.
fn number(cell: &str) -> Option<f64> {
    cell.parse().ok()
}

fn said(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(PROGRAM)
        .args(arguments)
        .arg("--format=csv,noheader,nounits")
        .output()
        .map_err(|error| format!("`{PROGRAM}` cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(text);
    }
    // It prints errors to either.
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let reason = text.lines().chain(errors.lines()).next().unwrap_or("no reason given").to_owned();
    Err(format!("`{PROGRAM}`: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: &str = "0, GPU-6fd2, NVIDIA H100 80GB HBM3, 580.159.04, 81559, 80994, 1980, 2619, \
                        700.00";
    const LAPTOP: &str =
        "1, GPU-aa01, NVIDIA GeForce MX450, 535.54.03, 2048, 1990, 2100, 5001, [N/A]";

    #[test]
    fn a_card_is_read_from_its_line() {
        let card = Card::parse(H100).unwrap();
        assert_eq!(card.name, "NVIDIA H100 80GB HBM3");
        assert_eq!((card.driver.as_str(), card.driver_major()), ("580.159.04", Some(580)));
        assert_eq!((card.memory_mib, card.free_mib), (Some(81_559.0), Some(80_994.0)));
        assert_eq!((card.most_clock_mhz, card.most_memory_clock_mhz), (Some(1980.0), Some(2619.0)));
        assert_eq!(card.power_limit_w, Some(700.0));
        assert_eq!(Card::parse(LAPTOP).unwrap().power_limit_w, None);
        assert_eq!(Card::parse("No devices were found"), None);
        assert_eq!(Card::parse("0, GPU-6fd2, a card, 580.1, 81559"), None);
    }

    #[test]
    fn the_first_card_is_the_first_visible_one() {
        let cards = [Card::parse(H100).unwrap(), Card::parse(LAPTOP).unwrap()];
        let first = |visible| first(&cards, visible).map(|card| card.index.as_str());
        assert_eq!(first(None), Some("0"));
        assert_eq!(first(Some("")), None);
        assert_eq!(first(Some("1,0")), Some("1"));
        assert_eq!(first(Some("GPU-aa")), Some("1"));
        assert_eq!(first(Some("7")), None);
    }

    #[test]
    fn a_sample_is_a_line_of_six_numbers_some_of_which_a_card_lacks() {
        let sample = parse_sample("1755, 2619, 41, 312.48, 98, 10624").unwrap();
        let expected = [1755.0, 2619.0, 41.0, 312.48, 98.0, 10_624.0].map(Some);
        assert_eq!(sample, expected);
        let sample = parse_sample("300, 405, 38, [N/A], [Not Supported], 12").unwrap();
        assert_eq!(sample, [Some(300.0), Some(405.0), Some(38.0), None, None, Some(12.0)]);
        assert_eq!(parse_sample("1755, 2619"), None);
        assert_eq!(parse_sample(""), None);
    }
}
