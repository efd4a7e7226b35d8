//! The section on the int8 model in a run's page.

use std::fmt::Write;

use serde_json::Value;

use super::plot::{Curve, Scale, escape, plot};

/// A section of the page, from `quant.json`.
pub(super) fn quantized(report: &Value) -> String {
    let evaluation = &report["evaluation"];
    let percent = |value: &Value| match value.as_f64() {
        Some(share) => format!("{:.2} %", 100.0 * share),
        None => "–".to_owned(),
    };
    let decibels = |value: &Value| match value.as_f64() {
        Some(decibels) => format!("{decibels:.1} dB"),
        None => "no noise".to_owned(),
    };
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    // The file may have been edited: only numbers are shown as numbers.
    let count =
        |value: &Value| if value.is_number() { value.to_string() } else { "–".to_owned() };
    // Numbers have no prediction that could be equal.
    let samples = count(&evaluation["samples"]);
    let compared = match evaluation["agreement"].is_null() {
        true => format!("{samples} samples"),
        false => {
            let share = percent(&evaluation["agreement"]);
            format!("{share} of {samples} predictions agree with f32")
        }
    };
    let (title, column, model) = match report["weights_only"].as_bool() {
        Some(true) => ("Quantized weights", "weights only", "the model"),
        _ => ("Int8", "int8", "int8"),
    };
    let mut body = format!(
        "<h2>{title}</h2>\n<p>{compared}, signal to noise {}, {} of the multiply-adds in int8. f32 \
         is better for {} samples, {model} for {}: p = {:.3}.</p>\n",
        decibels(&evaluation["sqnr_db"]),
        percent(&evaluation["int8_share"]),
        count(&evaluation["f32_better"]),
        count(&evaluation["int8_better"]),
        number(&evaluation["p_value"]),
    );
    if let Some(factor) = report["outliers"].as_f64() {
        let _ = writeln!(
            body,
            "<p>Before, one channel of each block was multiplied by {factor} and the weights that \
             read it were divided by it: the outputs are the same, and the ranges are wider.</p>"
        );
    }
    let mut rows = vec![
        (
            format!("test {}", escape(&score_name(evaluation))),
            scored(evaluation, &evaluation["score_f32"]),
            scored(evaluation, &evaluation["score_int8"]),
        ),
        (
            "bytes of the file".to_owned(),
            count(&evaluation["bytes_f32"]),
            count(&evaluation["bytes_int8"]),
        ),
        (
            "bytes of parameters".to_owned(),
            count(&evaluation["bytes_f32"]),
            count(&evaluation["parameter_bytes"]),
        ),
    ];
    for latency in report["latency"].as_array().into_iter().flatten() {
        for quantile in ["p50", "p95"] {
            let of = |name: &str| format!("{:.3} ms", number(&latency[name][quantile]));
            let name = format!("a batch of {}, {quantile}", count(&latency["batch"]));
            rows.push((name, of("f32_ms"), of("int8_ms")));
        }
    }
    let _ = writeln!(
        body,
        "<div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">f32</th>\
         <th class=\"number\">{column}</th></tr>"
    );
    for (name, of_f32, of_int8) in rows {
        let _ = writeln!(
            body,
            "<tr><td>{name}</td><td class=\"number\">{of_f32}</td><td class=\"number\">{of_int8}</td></tr>"
        );
    }
    body.push_str(
        "</table></div>\n<p>Times on this machine when the model was quantized, f32 as burn computes it \
         on the run's device.</p>\n<div class=\"scroll\"><table>\n<tr><th>layer</th><th>computes in</th>\
         <th class=\"number\">signal to noise</th><th class=\"number\">multiply-adds</th></tr>\n",
    );
    for layer in evaluation["layers"].as_array().into_iter().flatten() {
        let text = |field: &str| escape(layer[field].as_str().unwrap_or_default());
        let bits = match layer["weight_bits"].as_u64() {
            Some(bits) if bits < 8 => format!(", weights of {bits} bits"),
            _ => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><td class=\"name\">{}</td><td>{}{bits}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            text("name"),
            text("arithmetic"),
            decibels(&layer["sqnr_db"]),
            count(&layer["multiply_adds"]),
        );
    }
    body.push_str("</table></div>\n");
    body.push_str(&methods(report));
    body.push_str(&bits(report));
    for (said, names) in [
        ("To keep in f32 first", &evaluation["advised_f32"]),
        ("Output zero for all calibration samples", &evaluation["zero_layers"]),
    ] {
        let names = names.as_array().into_iter().flatten();
        let names: Vec<String> = names.filter_map(|name| Some(escape(name.as_str()?))).collect();
        if !names.is_empty() {
            let _ = writeln!(body, "<p>{said}: {}.</p>", names.join(", "));
        }
    }
    body
}

fn score_name(evaluation: &Value) -> String {
    evaluation["score"].as_str().unwrap_or("score").replace('_', " ")
}

/// Formats a mean score.
fn scored(evaluation: &Value, score: &Value) -> String {
    match (score.as_f64(), evaluation["is_share"].as_bool()) {
        (Some(share), Some(true)) => format!("{:.2} %", 100.0 * share),
        (Some(score), _) => format!("{score:.4e}"),
        (None, _) => "–".to_owned(),
    }
}

/// The layers of the ranking that the page shows.
const MOST_RANKED: usize = 40;

/// The effect of each layer alone, and the front of size against the score, if they were measured.
fn bits(report: &Value) -> String {
    let bits = &report["bits"];
    let mut layers: Vec<&Value> =
        bits["sensitivity"]["layers"].as_array().into_iter().flatten().collect();
    let mut body = String::new();
    if layers.is_empty() {
        return body;
    }
    layers.sort_by(|a, b| {
        let noise = |layer: &Value| layer["choices"][1]["noise"].as_f64().unwrap_or_default();
        noise(b).total_cmp(&noise(a))
    });
    let decibels = |layer: &Value, choice: usize| layer["choices"][choice]["sqnr_db"].as_f64();
    let names = ["8 bits", "4 bits", "3 bits", "2 bits"];
    let curves: Vec<Curve> = names
        .iter()
        .enumerate()
        .map(|(choice, name)| {
            let points = layers
                .iter()
                .enumerate()
                .filter_map(|(at, layer)| Some((at as f64 + 1.0, decibels(layer, choice)?)));
            Curve { name: (*name).to_owned(), points: points.collect() }
        })
        .collect();
    let title = "Signal to noise of the outputs with one layer quantized alone, dB";
    let sensitivity = plot(title, "layer, by its rank in the table below", Scale::Linear, &curves);
    let is_share = report["evaluation"]["is_share"].as_bool() == Some(true);
    let scaled = |score: f64| if is_share { 100.0 * score } else { score };
    let point = |point: &Value| {
        Some((100.0 * point["fraction"].as_f64()?, scaled(point["score"].as_f64()?)))
    };
    let front = bits["front"].as_array().into_iter().flatten();
    let in_f32 = bits["sensitivity"]["score_f32"].as_f64().map(|score| (100.0, scaled(score)));
    let curve = |name: &str, points: Vec<(f64, f64)>| Curve { name: name.to_owned(), points };
    let scores = [
        curve("least noise for its bytes", front.filter_map(point).collect()),
        curve("chosen", point(&bits["tested"]).into_iter().collect()),
        curve("f32", in_f32.into_iter().collect()),
    ];
    let unit = if is_share { ", %" } else { "" };
    let title = format!("{}{unit}, on calibration samples", score_name(&report["evaluation"]));
    let front_plot = plot(&title, "bytes, % of f32", Scale::Linear, &scores);
    // Without a plot the table still has the numbers.
    let _ = write!(
        body,
        "<h3>Bits of each layer</h3>\n{}\n{}\n",
        sensitivity.unwrap_or_default(),
        front_plot.unwrap_or_default()
    );
    let chosen = bits["assignment"]["layers"].as_array();
    let chosen_bits = |name: &Value| -> Option<String> {
        let pair = chosen?.iter().find(|pair| pair[0] == *name)?;
        Some(pair[1]["bits"].as_u64().map_or("f32".to_owned(), |bits| bits.to_string()))
    };
    let number = |value: Option<f64>| value.map_or("no noise".to_owned(), |db| format!("{db:.1}"));
    body.push_str(
        "<div class=\"scroll\"><table>\n<tr><th class=\"number\">rank</th>\
         <th>layer, the most sensitive at 4 bits first</th><th class=\"number\">weights</th>",
    );
    for name in names {
        let _ = write!(body, "<th class=\"number\">{name}, dB</th>");
    }
    if chosen.is_some() {
        body.push_str("<th class=\"number\">chosen bits</th>");
    }
    body.push_str("</tr>\n");
    for (rank, layer) in layers.iter().enumerate().take(MOST_RANKED) {
        let (rank, name) = (rank + 1, escape(layer["name"].as_str().unwrap_or_default()));
        let weights = layer["weights"].as_u64().unwrap_or_default();
        let _ = write!(
            body,
            "<tr><td class=\"number\">{rank}</td><td class=\"name\">{name}</td><td class=\"number\">{weights}</td>"
        );
        for choice in 0..names.len() {
            let _ = write!(body, "<td class=\"number\">{}</td>", number(decibels(layer, choice)));
        }
        if chosen.is_some() {
            let bits = chosen_bits(&layer["name"]).unwrap_or("–".to_owned());
            let _ = write!(body, "<td class=\"number\">{bits}</td>");
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
    if let Some(fraction) = bits["assignment"]["fraction"].as_f64() {
        let _ = writeln!(
            body,
            "<p>The chosen bits take {:.2} % of the bytes of f32.</p>",
            100.0 * fraction
        );
    }
    body
}

/// The results of each calibration method, if they were compared.
fn methods(report: &Value) -> String {
    let methods = report["methods"].as_array().map_or(&[][..], Vec::as_slice);
    if methods.is_empty() {
        return String::new();
    }
    let has_agreement = methods.iter().any(|row| !row["agreement"].is_null());
    let heading = match has_agreement {
        true => "<th class=\"number\">predictions agree</th>",
        false => "",
    };
    let mut table = format!(
        "<div class=\"scroll\"><table>\n<tr><th>method</th><th class=\"number\">test {}</th>\
         {heading}<th class=\"number\">signal to noise</th></tr>\n",
        escape(&score_name(&report["evaluation"])),
    );
    for row in methods {
        let number = |field: &str| row[field].as_f64();
        let percent = |p: f64| format!("{:.2} %", 100.0 * p);
        let agreement = match has_agreement {
            true => {
                let share = number("agreement").map_or("–".to_owned(), percent);
                format!("<td class=\"number\">{share}</td>")
            }
            false => String::new(),
        };
        let sqnr = number("sqnr_db").map_or("no noise".to_owned(), |db| format!("{db:.1} dB"));
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"number\">{}</td>{agreement}<td class=\"number\">{sqnr}</td></tr>",
            escape(row["method"].as_str().unwrap_or_default()),
            scored(&report["evaluation"], &row["score"]),
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
    fn text_where_a_number_belongs_is_not_shown() {
        let script = json!("<script>alert(1)</script>");
        let report = json!({
            "evaluation": {
                "samples": script, "score": "<script>", "score_f32": script, "agreement": script,
                "f32_better": script, "int8_better": [script], "p_value": script,
                "sqnr_db": script, "int8_share": script, "bytes_f32": { "a": script },
                "bytes_int8": script, "advised_f32": [script], "zero_layers": [script],
                "layers": [{ "name": script, "arithmetic": script, "sqnr_db": script,
                             "multiply_adds": script }],
            },
            "outliers": script,
            "methods": [{ "method": script, "score": script, "agreement": script }],
            "latency": [{ "batch": script, "f32_ms": { "p50": script }, "int8_ms": script }],
        });
        let body = quantized(&report);
        assert!(!body.contains("<script"), "{body}");
        assert!(body.contains("&lt;script&gt;"), "{body}");
    }

    #[test]
    fn the_section_has_both_scores_and_every_layer() {
        let report = json!({
            "evaluation": {
                "samples": 40, "score": "accuracy", "is_share": true, "score_f32": 0.5,
                "score_int8": 0.525, "agreement": 0.975,
                "f32_better": 0, "int8_better": 1, "p_value": 1.0, "sqnr_db": 34.56,
                "int8_share": 0.9, "bytes_f32": 4000, "bytes_int8": 1500,
                "layers": [{ "name": "<stem>", "arithmetic": "int8", "sqnr_db": null,
                             "multiply_adds": 7 }],
                "advised_f32": ["head"], "zero_layers": ["dead", "a&b"],
            },
            "outliers": 64.0,
            "methods": [{ "method": "mse", "score": 0.51, "agreement": 0.98, "sqnr_db": 30.0 }],
            "latency": [{ "batch": 32, "f32_ms": { "p50": 2.0, "p95": 3.0 },
                          "int8_ms": { "p50": 1.0, "p95": 1.5 } }],
        });
        let body = quantized(&report);
        for expected in [
            "97.50 % of 40 predictions agree with f32, signal to noise 34.6 dB, 90.00 % of the",
            "<td>test accuracy</td><td class=\"number\">50.00 %</td><td class=\"number\">52.50 %</td>",
            "<td>a batch of 32, p95</td><td class=\"number\">3.000 ms</td>",
            "<td class=\"name\">&lt;stem&gt;</td><td>int8</td><td class=\"number\">no noise</td>",
            "To keep in f32 first: head.",
            "one channel of each block was multiplied by 64",
            "<tr><td>mse</td><td class=\"number\">51.00 %</td><td class=\"number\">98.00 %</td>",
            "Output zero for all calibration samples: dead, a&amp;b.",
        ] {
            assert!(body.contains(expected), "`{expected}` is missing in {body}");
        }
    }

    #[test]
    fn the_bits_of_layers_are_ranked_and_plotted() {
        let layer = |name: &str, noise: f64| {
            let choice = |noise: f64| json!({ "noise": noise, "sqnr_db": -10.0 * noise.log10() });
            let choices = [0.01, 1.0, 4.0, 16.0].map(|factor| choice(factor * noise));
            json!({ "name": name, "weights": 72, "choices": choices })
        };
        let report = json!({
            "evaluation": { "score": "accuracy", "is_share": true, "agreement": null },
            "bits": {
                "sensitivity": { "layers": [layer("<quiet>", 0.001), layer("loud", 0.01)] },
                "front": [
                    { "fraction": 0.1, "score": 0.5 }, { "fraction": 0.25, "score": 0.75 },
                ],
                "assignment": {
                    "fraction": 0.2468,
                    "layers": [["<quiet>", { "bits": 3 }], ["loud", null]],
                },
            },
        });
        let body = quantized(&report);
        let row = "<tr><td class=\"number\">1</td><td class=\"name\">loud</td><td class=\"number\">72</td><td class=\"number\">40.0</td>\
                   <td class=\"number\">20.0</td><td class=\"number\">14.0</td>\
                   <td class=\"number\">8.0</td><td class=\"number\">f32</td></tr>";
        assert!(body.contains(row), "{body}");
        assert!(body.contains("&lt;quiet&gt;") && !body.contains("<quiet>"), "{body}");
        assert!(body.find("loud") < body.find("quiet"), "the most sensitive first: {body}");
        assert!(body.contains("take 24.68 % of the bytes of f32"), "{body}");
        assert_eq!(body.matches("<svg").count(), 2, "{body}");
    }

    #[test]
    fn numbers_have_no_agreement() {
        let report = json!({
            "evaluation": {
                "samples": 40, "score": "squared_error", "is_share": false, "score_f32": 0.5,
                "score_int8": 0.625, "agreement": null, "sqnr_db": 34.56, "int8_share": 0.9,
            },
            "methods": [{ "method": "mse", "score": 0.75, "agreement": null, "sqnr_db": 30.0 }],
        });
        let body = quantized(&report);
        assert!(body.contains("<p>40 samples, signal to noise 34.6 dB"), "{body}");
        assert!(body.contains("<td>mse</td><td class=\"number\">7.5000e-1</td>"), "{body}");
        assert!(!body.contains("agree"), "{body}");
    }
}
