//! The times of the ranks of a run, as a table.

use std::fmt::Write;

use serde_json::Value;

/// The work of a rank: everything in a step but the wait for others and the exchange with them.
const WORK: [&str; 5] = ["data_wait_us", "copy_us", "forward_us", "backward_us", "optimizer_us"];

/// The times of every rank over all epochs, and the slowest one; empty for a run on one rank.
pub(super) fn of_ranks(epochs: &[&Value]) -> String {
    let mut ranks: Vec<[f64; 4]> = Vec::new();
    for epoch in epochs {
        for (rank, times) in epoch["ranks"].as_array().into_iter().flatten().enumerate() {
            let field = |name: &str| times[name].as_f64().unwrap_or_default();
            let work = WORK.into_iter().map(field).sum();
            let own = [field("train_us"), work, field("rank_wait_us"), field("exchange_us")];
            // A resumed run may have had another number of ranks.
            ranks.resize(ranks.len().max(rank + 1), [0.0; 4]);
            ranks[rank].iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    }
    let slowest = (0..ranks.len()).max_by(|a, b| ranks[*a][1].total_cmp(&ranks[*b][1]));
    let Some(slowest) = slowest else { return String::new() };
    let differ = |epoch: &&&Value| {
        let mut parameters = epoch["ranks"].as_array().into_iter().flatten();
        let first = parameters.next().map(|rank| &rank["parameters"]);
        parameters.any(|rank| Some(&rank["parameters"]) != first)
    };
    let differing = epochs.iter().find(differ).map_or_else(String::new, |epoch| {
        format!(
            " The parameters of the ranks differ after epoch {}: devices of several kinds round \
             differently; on devices of one kind this is a defect.",
            epoch["epoch"]
        )
    });
    let sum = |at: usize| ranks.iter().map(|rank| rank[at]).sum::<f64>();
    let share = |part: f64, whole: f64| 100.0 * part / whole.max(1.0);
    let mean = sum(1) / ranks.len() as f64;
    let mut table = format!(
        "<h2>Time per rank</h2>\n<p>Rank {slowest} is the slowest: its own work takes {:.1} % more \
         than the mean. The ranks wait {:.1} % of their time for others and exchange numbers in \
         {:.1} % of it.{differing}</p>\n<div class=\"scroll\"><table>\n<tr><th>rank</th>\
         <th class=\"number\">own work</th><th class=\"number\">wait</th>\
         <th class=\"number\">exchange</th><th class=\"number\">waiting</th></tr>\n",
        share(ranks[slowest][1] - mean, mean),
        share(sum(2), sum(0)),
        share(sum(3), sum(0)),
    );
    for (rank, [train, work, wait, exchange]) in ranks.iter().enumerate() {
        let seconds = [work, wait, exchange].map(|us| {
            let seconds = us * 1e-6;
            format!("<td class=\"number\">{seconds:.2} s</td>")
        });
        let waiting = share(*wait, *train);
        let _ = writeln!(
            table,
            "<tr><td>{rank}</td>{}<td class=\"number\">{waiting:.1} %</td></tr>",
            seconds.concat()
        );
    }
    table.push_str("</table></div>\n");
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_slowest_rank_and_the_waiting_of_all_are_named() {
        let rank = |forward: u64, wait: u64| {
            json!({ "train_us": 2_000_000, "forward_us": forward,
                                                     "rank_wait_us": wait, "exchange_us": 50_000 })
        };
        let epoch = json!({ "ranks": [rank(500_000, 900_000), rank(1_300_000, 100_000)] });
        let text = of_ranks(&[&epoch, &epoch]);
        for expected in [
            "Rank 1 is the slowest: its own work takes 44.4 % more than the mean",
            "The ranks wait 25.0 % of their time for others and exchange numbers in 2.5 % of it",
            "<tr><td>0</td><td class=\"number\">1.00 s</td><td class=\"number\">1.80 s</td>\
             <td class=\"number\">0.10 s</td><td class=\"number\">45.0 %</td></tr>",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing: {text}");
        }
        assert_eq!(of_ranks(&[&json!({ "train_us": 5 })]), "");
    }

    #[test]
    fn the_first_epoch_with_other_parameters_on_a_rank_is_named() {
        let epoch = |epoch: u64, parameters: [u64; 2]| {
            let rank = |parameters| json!({ "train_us": 5, "parameters": parameters });
            json!({ "epoch": epoch, "ranks": parameters.map(rank) })
        };
        let same = [&epoch(1, [7, 7]), &epoch(2, [8, 8])];
        assert!(!of_ranks(&same).contains("differ"));
        let other = [&epoch(1, [7, 7]), &epoch(2, [8, 9]), &epoch(3, [1, 2])];
        assert!(of_ranks(&other).contains("differ after epoch 2:"));
    }
}
