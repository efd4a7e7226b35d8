//! The HTML page of a hyperparameter search: history, Pareto front, importance, objectives by key.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use plotters::prelude::{
    Color, IntoDrawingArea, IntoFont, PathElement, RGBColor, SVGBackend, Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use updraft_tune::{Direction, Objective, Parameter, Range, Study, TrialRecord, TrialState};

use super::marks::{Axis, Mark, Series, marks};
use super::page::document;
use super::plot::escape;
use crate::folder_name::folder_name;
use crate::search::{Found, value_text};
use crate::wrap::counted;

/// The most lines in the plot of all keys, which more would make unreadable; the best are drawn.
const MOST_LINES: usize = 300;

/// Width and height of the parallel-coordinates plot, in pixels.
const WIDE: (u32, u32) = (1260, 360);

/// Margins around the axes of that plot, in pixels.
const MARGIN: (i32, i32) = (90, 50);

/// The page of a study.
pub(crate) fn search_page(study: &Study, found: &Found) -> Result<String> {
    let objectives = &study.settings().objectives;
    let name = folder_name(study.folder());
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&name), sentence(found));
    body.push_str("<div class=\"figures\">\n");
    for (at, objective) in objectives.iter().enumerate() {
        body.push_str(&history(at, objective, &found.trials)?);
    }
    for one in 0..objectives.len() {
        for other in one + 1..objectives.len() {
            body.push_str(&front(objectives, [one, other], found)?);
        }
    }
    for (at, objective) in objectives.iter().enumerate() {
        body.push_str(&lines_of_keys(study, at, objective, &found.trials)?);
        for (place, parameter) in study.settings().space.parameters().iter().enumerate() {
            body.push_str(&slice((place, parameter), (at, objective), &found.trials)?);
        }
    }
    body.push_str("</div>\n");
    for (objective, shares) in objectives.iter().zip(&found.importance) {
        body.push_str(&importance(objective, shares));
    }
    body.push_str(&table(study, found));
    Ok(document(&name, &body))
}

fn sentence(found: &Found) -> String {
    format!(
        "{}: {} finished, {} pruned, {} failed.",
        counted(found.trials.len() as u64, "trial"),
        found.count(TrialState::Finished),
        found.count(TrialState::Pruned),
        found.count(TrialState::Failed)
    )
}

/// Finished trials with their values of objective `at`.
fn finished(at: usize, trials: &[TrialRecord]) -> impl Iterator<Item = (&TrialRecord, f64)> {
    let is_finished = |trial: &&TrialRecord| trial.state == TrialState::Finished;
    trials.iter().filter(is_finished).map(move |trial| (trial, trial.values[at]))
}

/// Pruned trials with the last value of objective `at`; a study with several prunes none.
fn pruned(at: usize, trials: &[TrialRecord]) -> impl Iterator<Item = (&TrialRecord, f64)> {
    let is_pruned = move |trial: &&TrialRecord| trial.state == TrialState::Pruned && at == 0;
    trials.iter().filter(is_pruned).filter_map(|trial| {
        let (_, value) = trial.intermediate.last()?;
        Some((trial, *value))
    })
}

/// The values of an objective over what `place` returns for a trial: finished and pruned trials.
fn values_over(
    at: usize,
    trials: &[TrialRecord],
    place: impl Fn(&TrialRecord) -> Option<f64>,
) -> [Series; 2] {
    let point = |(trial, value)| Some((place(trial)?, value));
    let kept = finished(at, trials).filter_map(point).collect();
    let stopped = pruned(at, trials).filter_map(point).collect();
    [
        Series { name: "a trial", mark: Mark::Dot, points: kept },
        Series { name: "a pruned trial, at its last epoch", mark: Mark::Ring, points: stopped },
    ]
}

/// Plots the values of an objective by trial, and the best value so far.
fn history(at: usize, objective: &Objective, trials: &[TrialRecord]) -> Result<String> {
    let [kept, stopped] = values_over(at, trials, |trial| Some(trial.number as f64));
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, value) in &kept.points {
        let earlier = points.last().map_or(*value, |(_, best)| *best);
        let best = match objective.direction {
            Direction::Minimize => earlier.min(*value),
            Direction::Maximize => earlier.max(*value),
        };
        points.push((*number, best));
    }
    let best = Series { name: "the best so far", mark: Mark::Line, points };
    let title = format!("{} over the trials", objective.name);
    marks(&title, ("trial", objective.name.as_str()), Axis::Integers, &[kept, stopped, best])
}

/// Plots one objective against another: the Pareto front, a line only if there are two objectives,
/// and the other trials.
fn front(objectives: &[Objective], [one, other]: [usize; 2], found: &Found) -> Result<String> {
    let is_best = |number: u64| found.front.iter().any(|best| best.number == number);
    let points = |wanted: bool| {
        let of = finished(one, &found.trials).filter(|(trial, _)| is_best(trial.number) == wanted);
        of.map(|(trial, first)| (first, trial.values[other])).collect::<Vec<_>>()
    };
    let mut best = points(true);
    best.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mark = if objectives.len() == 2 { Mark::Line } else { Mark::Point };
    let series = [
        Series { name: "another trial", mark: Mark::Dot, points: points(false) },
        Series { name: "on the front", mark, points: best },
    ];
    let names = (objectives[one].name.as_str(), objectives[other].name.as_str());
    let title = format!("Front: {} and {}", names.0, names.1);
    marks(&title, names, Axis::Linear, &series)
}

/// Plots an objective against the values of a key.
fn slice(
    (place, parameter): (usize, &Parameter),
    (at, objective): (usize, &Objective),
    trials: &[TrialRecord],
) -> Result<String> {
    let series = values_over(at, trials, |trial| trial.point[place]);
    let categories: Vec<String>;
    let axis = match parameter.range() {
        Range::Choice { choices } => {
            categories = choices.iter().map(choice_text).collect();
            Axis::Categories(&categories)
        }
        Range::Float { is_log: true, .. } | Range::Integer { is_log: true, .. } => {
            Axis::Logarithmic
        }
        Range::Integer { .. } => Axis::Integers,
        Range::Float { .. } => Axis::Linear,
    };
    let key = parameter.key();
    let title = format!("{} by {key}", objective.name);
    marks(&title, (key, objective.name.as_str()), axis, &series)
}

/// A choice as on an axis: a text without quotes.
fn choice_text(choice: &toml::Value) -> String {
    choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
}

/// Plots each trial as a line over all keys (parallel coordinates); better trials are darker.
fn lines_of_keys(
    study: &Study,
    at: usize,
    objective: &Objective,
    trials: &[TrialRecord],
) -> Result<String> {
    let parameters = study.settings().space.parameters();
    let mut lines: Vec<(&TrialRecord, f64)> = finished(at, trials).collect();
    let loss = |value: f64| objective.direction.loss(value);
    lines.sort_by(|a, b| loss(a.1).total_cmp(&loss(b.1)));
    lines.truncate(MOST_LINES);
    let (Some(best), Some(worst)) = (lines.first(), lines.last()) else {
        return Ok(String::new());
    };
    let (best, worst) = (best.1, worst.1);
    let mut svg = String::new();
    let drawn = draw_lines(&mut svg, objective, parameters, &lines, (best, worst));
    drawn.map_err(|error| anyhow!("drawing the keys: {error}"))?;
    Ok(format!(
        "<figure class=\"wide\">\n<figcaption>{} by all keys, a line for each trial; better trials \
         are darker</figcaption>\n<div class=\"scroll\">{svg}</div>\n</figure>\n",
        escape(&objective.name)
    ))
}

fn draw_lines(
    svg: &mut String,
    objective: &Objective,
    parameters: &[Parameter],
    lines: &[(&TrialRecord, f64)],
    (best, worst): (f64, f64),
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let area = SVGBackend::with_string(svg, WIDE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| text(&error))?;
    let (width, height) = (WIDE.0 as i32, WIDE.1 as i32);
    let gap = (width - 2 * MARGIN.0) / parameters.len() as i32;
    let x = |axis: usize| MARGIN.0 + gap * axis as i32;
    let y = |share: f64| height - MARGIN.1 - (f64::from(height - 2 * MARGIN.1) * share) as i32;
    let goodness = |value: f64| {
        let range = best - worst;
        if range == 0.0 { 1.0 } else { (value - worst) / range }
    };
    let gray = RGBColor(120, 126, 134).stroke_width(1);
    let style = ("sans-serif", 12).into_font().color(&RGBColor(28, 35, 48));
    let centered = |vertical| style.clone().pos(Pos::new(HPos::Center, vertical));
    for axis in 0..=parameters.len() {
        area.draw(&PathElement::new([(x(axis), y(0.0)), (x(axis), y(1.0))], gray))
            .map_err(|error| text(&error))?;
        let (name, low, high) = match parameters.get(axis) {
            Some(parameter) => {
                let (low, high) = ends(parameter);
                (parameter.key(), low, high)
            }
            None => (objective.name.as_str(), value_text(worst), value_text(best)),
        };
        // Alternate the height of the labels, so that neighbors do not overlap.
        let above = if axis % 2 == 0 { 25 } else { 39 };
        for (label, at, vertical) in [
            (name.to_owned(), y(1.0) - above, VPos::Center),
            (high, y(1.0) - 4, VPos::Bottom),
            (low, y(0.0) + 4, VPos::Top),
        ] {
            area.draw(&Text::new(label, (x(axis), at), centered(vertical)))
                .map_err(|error| text(&error))?;
        }
    }
    for (trial, value) in lines.iter().rev() {
        let share = goodness(*value);
        let color = RGBColor(0, 114, 178).mix(0.08 + 0.8 * share * share).stroke_width(1);
        let points = trial.point.iter().zip(parameters).enumerate();
        let mut path: Vec<(i32, i32)> = points
            .filter_map(|(axis, (place, parameter))| {
                Some((x(axis), y(height_of(parameter, (*place)?))))
            })
            .collect();
        path.push((x(parameters.len()), y(share)));
        area.draw(&PathElement::new(path, color)).map_err(|error| text(&error))?;
    }
    area.present().map_err(|error| text(&error))
}

/// The labels of the ends of a key's axis.
fn ends(parameter: &Parameter) -> (String, String) {
    match parameter.range() {
        Range::Float { low, high, .. } => (value_text(*low), value_text(*high)),
        Range::Integer { low, high, .. } => (low.to_string(), high.to_string()),
        Range::Choice { choices } => {
            let shown = |choice: Option<&_>| choice.map_or_else(String::new, choice_text);
            (shown(choices.first()), shown(choices.last()))
        }
    }
}

/// The position of a value on its axis, from 0 to 1.
fn height_of(parameter: &Parameter, value: f64) -> f64 {
    let (low, high, is_log) = match parameter.range() {
        Range::Float { low, high, is_log, .. } => (*low, *high, *is_log),
        Range::Integer { low, high, is_log, .. } => (*low as f64, *high as f64, *is_log),
        Range::Choice { choices } => (0.0, choices.len() as f64 - 1.0, false),
    };
    let scaled = |x: f64| if is_log { x.ln() } else { x };
    (scaled(value) - scaled(low)) / (scaled(high) - scaled(low))
}

fn importance(objective: &Objective, shares: &[(String, f64)]) -> String {
    if shares.is_empty() {
        return String::new();
    }
    let mut table = format!(
        "<h2>Importance for {}</h2>\n<p>Share of each key in the variance over the finished \
         trials.</p>\n\
         <div class=\"scroll\"><table>\n",
        escape(&objective.name)
    );
    for (key, share) in shares {
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"number\">{:.1} %</td>\
             <td><span class=\"bar\" style=\"width:{:.0}px\"></span></td></tr>",
            escape(key),
            100.0 * share,
            300.0 * share,
        );
    }
    table.push_str("</table></div>\n");
    table
}

/// The table of all trials with their objectives and values.
fn table(study: &Study, found: &Found) -> String {
    let settings = study.settings();
    let mut table = "<h2>Trials</h2>\n<div class=\"scroll\"><table class=\"trials\">\n<tr>\
                     <th>trial</th>"
        .to_owned();
    for name in settings.objectives.iter().map(|objective| objective.name.as_str()) {
        let _ = write!(table, "<th class=\"number\">{}</th>", escape(name));
    }
    for parameter in settings.space.parameters() {
        // A long key is broken after a dot.
        let key = escape(parameter.key()).replace('.', ".<wbr>");
        let _ = write!(table, "<th class=\"number\">{key}</th>");
    }
    table.push_str("<th>result</th></tr>\n");
    for trial in &found.trials {
        let is_best = found.front.iter().any(|best| best.number == trial.number);
        let mark = if is_best { " ★" } else { "" };
        let _ = write!(table, "<tr><td>{}{mark}</td>", trial.number);
        for at in 0..settings.objectives.len() {
            let value = trial.values.get(at).map_or_else(String::new, |value| value_text(*value));
            let _ = write!(table, "<td class=\"number\">{value}</td>");
        }
        let values = settings.space.values(&trial.point);
        for parameter in settings.space.parameters() {
            let value = values.iter().find(|(key, _)| *key == parameter.key());
            let value = value.map_or_else(String::new, |(_, value)| value.to_string());
            let _ = write!(table, "<td class=\"number\">{}</td>", escape(&value));
        }
        let end = match trial.state {
            TrialState::Finished => "finished".to_owned(),
            TrialState::Pruned => match trial.intermediate.last() {
                Some((epoch, _)) => format!("pruned at epoch {epoch}"),
                None => "pruned".to_owned(),
            },
            TrialState::Failed => {
                format!("failed: {}", trial.reason.as_deref().unwrap_or("no reason"))
            }
            TrialState::Running => "running".to_owned(),
            TrialState::Waiting => "waiting".to_owned(),
        };
        let _ = writeln!(table, "<td>{}</td></tr>", escape(&end));
    }
    table.push_str("</table></div>\n");
    table
}

#[cfg(test)]
mod tests {
    use updraft_tune::{Asked, SamplerSettings, Space, StudySettings};

    use super::*;

    #[test]
    fn a_page_has_every_plot_and_names_are_escaped() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let space = r#"
            "train.rate" = { kind = "float", low = 1e-4, high = 0.1, log = true }
            "model.kind" = { kind = "categorical", choices = ["<a>", "b"] }
            "model.size" = { kind = "integer", low = 1, high = 4, when = { "model.kind" = "b" } }
        "#;
        let objective = |name: &str, direction| Objective { name: name.to_owned(), direction };
        let settings = StudySettings {
            space: Space::read(&toml::from_str(space).expect("TOML")).expect("a space"),
            objectives: vec![
                objective("test-accuracy", Direction::Maximize),
                objective("parameters", Direction::Minimize),
            ],
            sampler: SamplerSettings::Random {},
            pruner: None,
            steps: 1,
            seed: 1,
            trials: 12,
            attempts: 1,
            shared: serde_json::Value::Null,
            data: String::new(),
        };
        let study = Study::open(dir.path(), settings).expect("opened");
        while let Asked::Trial(trial) = study.ask().expect("asked") {
            let rate = trial.point.iter().flatten().sum::<f64>();
            match trial.number {
                3 => study.fail(&trial, "a < b", None),
                _ => study.finish(&trial, &[0.5 + rate / 100.0, rate * 3.0], None),
            }
            .expect("recorded");
        }
        let page = search_page(&study, &Found::of(&study)).expect("a page");
        for expected in [
            "12 trials: 11 finished, 0 pruned, 1 failed.",
            "test-accuracy over the trials",
            "Front: test-accuracy and parameters",
            "on the front",
            "parameters by all keys",
            "test-accuracy by train.rate",
            "Importance for test-accuracy",
            "failed: a &lt; b",
            "train.<wbr>rate",
            ">\n&lt;a&gt;\n</text>",
            "★",
        ] {
            assert!(page.contains(expected), "`{expected}` is missing");
        }
        assert!(page.matches("<svg").count() >= 11, "{}", page.matches("<svg").count());
        for foreign in ["<script", "<a>", "src=", "@import"] {
            assert!(!page.contains(foreign), "the page holds `{foreign}`");
        }
    }

    #[test]
    fn pruned_trials_are_rings_in_the_history_and_in_each_slice() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let space = r#"
            kind = { kind = "categorical", choices = ["a", "b"] }
            rate = { kind = "float", low = 0.0, high = 1.0 }
        "#;
        let settings = StudySettings {
            space: Space::read(&toml::from_str(space).expect("TOML")).expect("a space"),
            objectives: vec![Objective {
                name: "test-loss".to_owned(),
                direction: Direction::Minimize,
            }],
            sampler: SamplerSettings::Random {},
            pruner: None,
            steps: 2,
            seed: 1,
            trials: 5,
            attempts: 1,
            shared: serde_json::Value::Null,
            data: String::new(),
        };
        let study = Study::open(dir.path(), settings).expect("opened");
        while let Asked::Trial(trial) = study.ask().expect("asked") {
            study.report(&trial, 1, 0.5).expect("reported");
            match trial.number {
                1 | 2 => study.prune(&trial, None),
                _ => study.finish(&trial, &[0.25], None),
            }
            .expect("recorded");
        }
        let page = search_page(&study, &Found::of(&study)).expect("a page");
        assert_eq!(page.matches("○&#160;a pruned trial, at its last epoch").count(), 3);
        let rings =
            page.lines().filter(|it| it.starts_with("<circle") && it.contains("fill=\"none\""));
        assert_eq!(rings.count(), 2 * 3, "two in each of three plots");
    }
}
