//! The rows of a comparison: which optimizations are on in each.

use super::order::Setting;
use super::switch::Switched;

/// The place of a row in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every compared optimization is off.
    Baseline,
    /// One optimization, or the settings of `--try`, are on.
    Alone,
    /// This optimization and all rows of this kind before it are on.
    Cumulative,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) setting: Setting,
}

/// The baseline, each optimization alone, the optimizations one after another, of which the last
/// row has all of them, and the settings of `--try`.
pub(crate) fn rows(switched: &[Switched], tried: &[String]) -> Vec<Row> {
    let with = |on: &dyn Fn(usize) -> bool| {
        let chosen =
            switched.iter().enumerate().map(|(at, it)| if on(at) { &it.on } else { &it.off });
        chosen.fold(Setting::default(), together)
    };
    let row = |name: &str, kind, setting| Row { name: name.to_owned(), kind, setting };
    let mut rows = vec![row("baseline", Kind::Baseline, with(&|_| false))];
    for (at, it) in switched.iter().enumerate() {
        rows.push(row(it.switch.name(), Kind::Alone, with(&|other| other == at)));
    }
    for settings in tried {
        let mut setting = with(&|_| false);
        setting.sets.extend(settings.split_whitespace().map(str::to_owned));
        rows.push(row(settings, Kind::Alone, setting));
    }
    // The first of them alone is a row already.
    for (at, it) in switched.iter().enumerate().skip(1) {
        let setting = with(&|other| other <= at);
        rows.push(row(&format!("+ {}", it.switch.name()), Kind::Cumulative, setting));
    }
    rows
}

fn together(mut all: Setting, next: &Setting) -> Setting {
    all.sets.extend(next.sets.iter().cloned());
    all.plain |= next.plain;
    all.threads = next.threads.or(all.threads);
    all
}

#[cfg(test)]
mod tests {
    use super::super::switch::Switch;
    use super::*;

    fn switched(switch: Switch, off: Setting, on: Setting) -> Switched {
        Switched { switch, off, on, words: String::new() }
    }

    #[test]
    fn each_is_alone_then_they_are_added_and_nothing_stays_on_by_itself() {
        let plain = Setting { plain: true, ..Setting::default() };
        let threads = |count| Setting { threads: Some(count), ..Setting::default() };
        let sets = |set: &str| Setting { sets: vec![set.to_owned()], ..Setting::default() };
        let all = [
            switched(Switch::Kernels, plain, Setting::default()),
            switched(Switch::Threads, threads(1), threads(2)),
            switched(Switch::Workers, sets("w=0"), sets("w=1")),
        ];
        let rows = rows(&all, &["a=1 b=2".to_owned()]);
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                let Setting { sets, plain, threads } = &row.setting;
                (row.name.as_str(), *plain, threads.unwrap_or(0), sets.join(" "))
            })
            .collect();
        let expected = [
            ("baseline", true, 1, "w=0"),
            ("kernels", false, 1, "w=0"),
            ("threads", true, 2, "w=0"),
            ("workers", true, 1, "w=1"),
            ("a=1 b=2", true, 1, "w=0 a=1 b=2"),
            ("+ threads", false, 2, "w=0"),
            ("+ workers", false, 2, "w=1"),
        ];
        let expected =
            expected.map(|(name, plain, count, sets)| (name, plain, count, sets.to_owned()));
        assert_eq!(found, expected);
    }
}
