//! What the pathways of a network contribute to its test images, in the terminal.

use updraft_run::{Contributions, PlaceTerms, Plan, RunFolder, Term};
use updraft_trainer::checkpoint_step;

use crate::performance::share;
use crate::progress::Display;
use crate::wrap::{counted, hanging};

/// Prints the contributions that a run recorded of its served model, or why they are not of it;
/// nothing for a run without them. They are not those of another checkpoint that was asked for.
pub(crate) fn show(folder: &RunFolder, plan: &Plan, asked: Option<u64>, display: &Display) {
    let is_there = folder.has(Contributions::FILE);
    let served = asked.filter(|_| is_there).and_then(|_| served_step(folder, plan));
    if let Some(step) = served.filter(|step| Some(*step) != asked) {
        display.line(&format!("contributions are of the served checkpoint, step {step}"));
        return;
    }
    match folder.contributions(plan) {
        Ok(None) => {}
        Ok(Some(found)) => lines(&found).iter().for_each(|line| display.line(line)),
        Err(error) => display.line(&hanging("no contributions  ", &error.to_string())),
    }
}

/// The step of the checkpoint that a run serves, also where another one was asked for.
fn served_step(folder: &RunFolder, plan: &Plan) -> Option<u64> {
    let own = RunFolder::open(folder.path()).ok()?;
    checkpoint_step(&own.served_checkpoint(plan).ok()?)
}

/// The terms that have a weight.
const STREAMS: [&str; 3] = ["color", "brightness", "stream"];

/// A title, two lines of headings and a line for each place, at most eighty columns wide.
fn lines(found: &Contributions) -> Vec<String> {
    let places = found.places();
    let images = places.first().map_or(0, |place| place.images as u64);
    let title = format!(
        "contributions to {} at the end of training: weights, and shares of the terms in the sum",
        counted(images, "test image")
    );
    let [color, brightness, stream] = STREAMS;
    let both = format!("{:>7}{:>7}", "weight", "share");
    let mut lines = vec![
        hanging("", &title),
        format!("{:10}{color:>14}{brightness:>14}{stream:>14}{:>8}", "", "mix"),
        format!("{:10}{both}{both}{both}{:>8}{:>9}", "", "share", "entropy"),
    ];
    lines.extend(places.iter().map(line));
    lines
}

fn line(place: &PlaceTerms) -> String {
    let term = |name: &str| place.overall.iter().find(|term| term.name == name);
    let of_share = |term: Option<&Term>| term.map_or("-".to_owned(), |term| share(term.share));
    let streams = STREAMS.map(|name| {
        let weight = term(name).and_then(|term| term.weight);
        let weight = weight.map_or("-".to_owned(), |weight| format!("{weight:.3}"));
        format!("{weight:>7}{:>7}", of_share(term(name)))
    });
    let mix = of_share(term("mix"));
    format!("{:10}{}{mix:>8}{:>9.2}", place.place, streams.concat(), place.entropy)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Two places, the first without a stream; images of the first of two classes, whose color
    /// weights are `of_class`.
    pub(crate) fn planted(classes: [&str; 2], of_class: f64) -> Contributions {
        let values = |color: f64, stream: Option<f64>| {
            let rest = 1.0 - color - stream.unwrap_or(0.0);
            json!({ "color": color, "brightness": rest, "stream": stream })
        };
        let means = |color: f64, stream: Option<f64>| {
            json!({ "images": 40, "mean": { "weights": values(color, stream),
                    "shares": { "color": 0.25, "brightness": 0.125, "stream": stream },
                    "mix": 0.5, "entropy": 0.69 } })
        };
        let place = |place: Value, stream: Option<f64>| {
            json!({ "place": place, "overall": means(0.5, stream),
                    "classes": [means(of_class, stream), null] })
        };
        let places = [place(json!({ "stage": 0 }), None), place(json!("pooled"), Some(0.125))];
        let found = json!({ "classes": classes, "places": places });
        serde_json::from_value(found).expect("contributions")
    }

    #[test]
    fn a_line_has_the_weights_and_shares_of_a_place_and_fits_the_terminal() {
        let lines = lines(&planted(["a", "b"], 0.5));
        assert!(lines.iter().flat_map(|line| line.lines()).all(|it| it.chars().count() <= 80));
        assert!(lines[0].starts_with("contributions to 40 test images"), "{lines:?}");
        let words =
            |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[3]), "stage 0 0.500 25 % 0.500 12 % - - 50 % 0.69");
        assert_eq!(words(&lines[4]), "pooled 0.500 25 % 0.375 12 % 0.125 12 % 50 % 0.69");
        // The numbers are below their headings.
        let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end(&lines[1], "brightness"), end(&lines[3], "12 %"));
        assert_eq!(lines[2].len(), lines[3].len());
        assert_eq!(lines.len(), 5);
    }
}
