//! The rows of a run as numbers, with encodings fitted on its training rows.

use std::path::{Path, PathBuf};

use updraft_data::{
    Collate, ColumnEncoder, ColumnKind, ColumnSchema, Delimiter, Draw, FitConfig, InMemoryTensors,
    LastBatch, Loader, Order, StreamConfig, Table, TableEncoder, TableSchema, TargetBatch, Targets,
    formula_samples, stratified_split,
};

use super::data_plan::{DataPlan, FilesPlan, FormulaPlan};
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::Opening;
use crate::task::share::{other_share, tenths};

/// The file of a run folder with the encoding of its columns.
pub(super) const ENCODER: &str = "encoder.json";

/// The rows of a run, encoded.
pub(super) struct TableData {
    pub(super) train: InMemoryTensors,
    pub(super) test: InMemoryTensors,
    pub(super) encoder: TableEncoder,
    pub(super) target: String,
    /// Messages about the rows.
    pub(super) notes: Vec<String>,
}

impl TableData {
    /// Opens and encodes the rows of a plan.
    pub(super) fn open(
        plan: &DataPlan,
        seed: u64,
        opening: &Opening<'_>,
    ) -> Result<Self, RunError> {
        let (target, paths) = (plan.target().to_owned(), plan.find(opening.dir)?);
        let mut notes = Vec::new();
        let (table, train, test) = match plan {
            DataPlan::Formula { formula, noise, train_rows, test_rows } => {
                let train = of_formula(*formula, *train_rows, *noise, seed)?;
                // A different seed draws other rows; test values have no noise, so the error is
                // that of the function.
                let test = of_formula(*formula, *test_rows, 0.0, seed ^ (1 << 63))?;
                let table = train.append(&test)?;
                let rows: Vec<usize> = (0..table.rows()).collect();
                let (train, test) = rows.split_at(*train_rows);
                (table, train.to_vec(), test.to_vec())
            }
            DataPlan::Files(files) => {
                let table = of_files(files, &paths)?;
                let targets = targets(&table, &target)?;
                let share = files.test_fraction;
                let split = stratified_split(&tenths(&targets, share), share, seed)?;
                notes.extend(other_share(share, &split, "rows", "one row at least is held out"));
                (table, split.kept, split.held_out)
            }
        };
        if test.is_empty() {
            let reason = format!("no row is left for the test: {} rows are too few", train.len());
            return Err(RunError::Unusable { reason });
        }
        let encoder = TableEncoder::fit(&table, &train, FitConfig::default())?;
        refuse_constant_target(&table, &target, &train)?;
        let (inputs, encoded) = (inputs(&encoder, &table, &target)?, encoder.encode(&table)?);
        let (width, values) = (width(&encoder, &target), encoded.numbers(&target)?);
        if width == 0 {
            let reason = "no feature has a value in any training row: nothing to predict from";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        let samples = |rows: &[usize]| -> Result<InMemoryTensors, RunError> {
            let features = rows.iter().flat_map(|row| &inputs[row * width..][..width]);
            let values = rows.iter().map(|&row| values[row]).collect();
            let targets = Targets::Values { shape: vec![1], values };
            let features = features.copied().collect();
            Ok(InMemoryTensors::from_floats(rows.len(), &[width], features, targets)?)
        };
        Ok(Self { train: samples(&train)?, test: samples(&test)?, encoder, target, notes })
    }

    /// Shuffled batches for training, batches in order for the test.
    pub(super) fn loaders(
        &self,
        train: &TrainPlan,
        seed: u64,
    ) -> Result<[Loader<InMemoryTensors>; 2], RunError> {
        let config = StreamConfig::new(train.batch).with_workers(train.workers.into());
        let ordered = config.clone().with_order(Order::Shuffled).with_seed(seed);
        Ok([
            Loader::collating(self.train.clone(), ordered.with_last(LastBatch::Drop))?,
            Loader::collating(self.test.clone(), config)?,
        ])
    }

    /// Returns an error for data with another encoding than the run's.
    pub(super) fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        let stored: TableEncoder = folder.read_json(ENCODER)?;
        match difference(&self.encoder, &stored) {
            None => Ok(()),
            Some(difference) => {
                Err(RunError::OtherData { run: folder.path().to_owned(), difference })
            }
        }
    }
}

/// The mean and the standard deviation of a column of numbers; (0, 1) for other columns.
pub(super) fn scale(encoder: &TableEncoder, column: &str) -> (f64, f64) {
    match encoder.column(column) {
        Some(ColumnEncoder::Number { mean, std }) => (*mean, *std),
        _ => (0.0, 1.0),
    }
}

/// The number of inputs of the model.
pub(super) fn width(encoder: &TableEncoder, target: &str) -> usize {
    let columns = encoder.schema().columns.iter().filter(|column| column.name != target);
    let width = |name: &str| match encoder.column(name) {
        Some(ColumnEncoder::Category(vocabulary)) => vocabulary.words().len(),
        _ => 1,
    };
    columns.map(|column| width(&column.name)).sum()
}

/// The inputs of every row, `[rows, inputs]`: encoded numbers, and one input per word of a
/// category.
pub(super) fn inputs(
    encoder: &TableEncoder,
    table: &Table,
    target: &str,
) -> Result<Vec<f32>, RunError> {
    let encoded = encoder.encode(table)?;
    let mut columns: Vec<Vec<f32>> = Vec::new();
    for column in encoder.schema().columns.iter().filter(|column| column.name != target) {
        match encoder.column(&column.name) {
            Some(ColumnEncoder::Category(vocabulary)) => {
                let classes = encoded.classes(&column.name)?;
                // Class 0 is for missing and unknown words.
                columns.extend((1..=vocabulary.words().len()).map(|word| {
                    classes.iter().map(|&class| f32::from(class as usize == word)).collect()
                }));
            }
            _ => {
                let numbers = encoded.numbers(&column.name)?;
                if let Some(row) = numbers.iter().position(|number| !number.is_finite()) {
                    let reason = format!(
                        "row {} has a `{}` so far from the mean of the training rows, in their \
                         standard deviation, that f32 cannot hold it; correct it or leave the row out",
                        row + 1,
                        column.name
                    );
                    return Err(RunError::Unusable { reason });
                }
                columns.push(numbers.to_vec());
            }
        }
    }
    Ok((0..table.rows()).flat_map(|row| columns.iter().map(move |column| column[row])).collect())
}

/// The features of a plan, in the order of the model's inputs.
pub(super) fn features(plan: &FilesPlan) -> TableSchema {
    plan.features.iter().fold(TableSchema::new(), |schema, feature| {
        match plan.categories.contains(feature) {
            true => schema.category(feature),
            false => schema.number(feature),
        }
    })
}

/// The table with the features for the plan's `file`-th file.
pub(super) fn with_file_features(
    mut table: Table,
    plan: &FilesPlan,
    file: usize,
) -> Result<Table, RunError> {
    if !plan.file_features {
        return Ok(table);
    }
    for (own, name) in plan.files.iter().enumerate().skip(1) {
        let rows = table.rows();
        let values = vec![f64::from(u8::from(own == file)); rows];
        // With the names of the plan, because the data folder may change.
        table = table.with_numbers(format!("from {}", name.display()), values)?;
    }
    Ok(table)
}

fn of_files(plan: &FilesPlan, paths: &[PathBuf]) -> Result<Table, RunError> {
    let mut schema = features(plan).number(&plan.target);
    schema.header.clone_from(&plan.columns);
    let mut whole: Option<Table> = None;
    for (file, path) in paths.iter().enumerate() {
        let table = Table::read(path, plan.delimiter, schema.clone())?;
        refuse_bad_numbers(&table, Some(&plan.target), (path, plan.delimiter))?;
        let table = with_file_features(table, plan, file)?;
        whole = Some(match whole {
            None => table,
            Some(whole) => whole.append(&table)?,
        });
    }
    whole.ok_or_else(|| RunError::Unusable { reason: "the plan names no file".to_owned() })
}

/// Returns an error for a row without a target, and for numbers that do not fit into f32.
///
/// `target` is `None` for prediction.
pub(super) fn refuse_bad_numbers(
    table: &Table,
    target: Option<&str>,
    (path, delimiter): (&Path, Delimiter),
) -> Result<(), RunError> {
    let schema = table.schema();
    let numbers = schema.columns.iter().filter(|column| column.kind == ColumnKind::Number);
    for ColumnSchema { name: column, .. } in numbers {
        for row in 0..table.rows() {
            let place = || {
                match Table::line_of(path, delimiter, schema.header.as_deref(), row) {
                    Ok(line) => format!("`{}` line {line}, column `{column}`", path.display()),
                    // The file was just read, so this is unlikely.
                    Err(_) => format!("`{}` row {}, column `{column}`", path.display(), row + 1),
                }
            };
            match table.number(column, row)? {
                None if Some(column.as_str()) == target => {
                    let reason = format!("{}: the target is missing; leave the row out", place());
                    return Err(RunError::Unusable { reason });
                }
                Some(value) if !(value as f32).is_finite() => {
                    let reason = format!(
                        "{}: {value:e} is beyond what f32 holds, ±3.4e38; correct it or change \
                         its unit",
                        place()
                    );
                    return Err(RunError::Unusable { reason });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn of_formula(plan: FormulaPlan, rows: usize, noise: f32, seed: u64) -> Result<Table, RunError> {
    let set = formula_samples(plan.into(), rows, noise, seed)?;
    let mut batch = set.begin(rows);
    for index in 0..rows {
        set.add(Draw { seed, epoch: 0, index }, &mut (), &mut batch)?;
    }
    let TargetBatch::Values { values, .. } = batch.targets() else {
        unreachable!("a formula has values")
    };
    let wide = |values: &mut dyn Iterator<Item = &f32>| values.map(|&value| value.into()).collect();
    let inputs = batch.values().len() / rows;
    let features = (0..inputs).map(|input| {
        let values: Vec<f64> = wide(&mut batch.values().iter().skip(input).step_by(inputs));
        (format!("x{}", input + 1), values)
    });
    let target: Vec<f64> = wide(&mut values.iter());
    Ok(Table::of_numbers(features.chain([("y".to_owned(), target)]))?)
}

fn targets(table: &Table, target: &str) -> Result<Vec<f64>, RunError> {
    let value = |row| Ok(table.number(target, row)?.unwrap_or(f64::NAN));
    (0..table.rows()).map(value).collect()
}

fn refuse_constant_target(table: &Table, target: &str, rows: &[usize]) -> Result<(), RunError> {
    let values = targets(table, target)?;
    let mut values = rows.iter().map(|&row| values[row]);
    let first = values.next().unwrap_or(f64::NAN);
    if values.any(|value| value != first) {
        return Ok(());
    }
    let reason =
        format!("the target `{target}` is {first} in every training row: nothing to learn");
    Err(RunError::Unusable { reason })
}

/// The difference between two encoders; decimals of a file may differ in the last digit.
fn difference(own: &TableEncoder, other: &TableEncoder) -> Option<String> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    let names = |encoder: &TableEncoder| -> Vec<String> {
        encoder.schema().columns.iter().map(|column| column.name.clone()).collect()
    };
    if names(own) != names(other) {
        return Some("it has other columns".to_owned());
    }
    names(own).into_iter().find_map(|name| match (own.column(&name), other.column(&name)) {
        (
            Some(ColumnEncoder::Number { mean, std }),
            Some(ColumnEncoder::Number { mean: other_mean, std: other_std }),
        ) => (!near(*mean, *other_mean) || !near(*std, *other_std))
            .then(|| format!("the training rows have another mean or deviation of `{name}`")),
        (own, other) => {
            (own != other).then(|| format!("the training rows have other words in `{name}`"))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::data_plan;
    use super::*;
    use crate::config::Settings;

    /// The rows of a text of comma-separated values; `setting` is added to `data`.
    fn open(text: &str, setting: &str) -> Result<TableData, RunError> {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("a.csv"), text).expect("written");
        let config =
            format!("[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\ntarget = \"y\"\n{setting}\n");
        let settings = Settings::load(&config, Path::new("c.toml"), &[]).expect("TOML");
        let settings = settings.with_keys(vec![data_plan::KEYS], &[]).expect("known keys");
        let plan = DataPlan::read(&settings).expect("valid");
        let opening = Opening { dir: Some(dir.path()), run: None, progress: &mut |_, _| {} };
        TableData::open(&plan, 1, &opening)
    }

    /// Numbers `a` and words `b`; row 3 has another word, row 4 none.
    fn table() -> Table {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("a.csv");
        fs::write(&path, "a,b,y\n1,u,0\n3,v,10\n,u,20\n100,w,30\n2,,40\n").expect("written");
        let schema = TableSchema::new().number("a").category("b").number("y");
        Table::read(&path, Delimiter::Comma, schema).expect("a table")
    }

    #[test]
    fn rows_are_encoded_by_what_the_training_rows_alone_say() {
        let table = table();
        let encoder = TableEncoder::fit(&table, &[0, 1, 2], FitConfig::default()).expect("fitted");
        assert_eq!(scale(&encoder, "a"), (2.0, 1.0));
        assert_eq!(scale(&encoder, "y"), (10.0, (200.0_f64 / 3.0).sqrt()));
        assert_eq!(scale(&encoder, "b"), (0.0, 1.0));
        assert_eq!(width(&encoder, "y"), 3);
        // A missing number becomes the mean. A word sets one input to 1; an unknown or missing word
        // sets none.
        let expected =
            [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [98.0, 0.0, 0.0], [0.0, 0.0, 0.0]];
        assert_eq!(inputs(&encoder, &table, "y").expect("encoded"), expected.concat());
    }

    #[test]
    fn encoders_differ_in_columns_means_and_words_and_not_in_the_last_digit() {
        let table = table();
        let fit =
            |rows: &[usize]| TableEncoder::fit(&table, rows, FitConfig::default()).expect("fitted");
        let own = fit(&[0, 1, 2]);
        assert_eq!(difference(&own, &fit(&[0, 1, 2])), None);
        let text = serde_json::to_string(&own).expect("JSON");
        assert_eq!(difference(&own, &serde_json::from_str(&text).expect("an encoder")), None);
        let off = text.replacen("2.0", "2.0000000000000004", 1);
        assert_eq!(difference(&own, &serde_json::from_str(&off).expect("an encoder")), None);
        let of = |rows: &[usize]| difference(&own, &fit(rows)).expect("it differs");
        assert!(of(&[0, 3]).contains("mean or deviation of `a`"));
        let wordy = text.replacen("\"u\"", "\"x\"", 1);
        let wordy = difference(&own, &serde_json::from_str(&wordy).expect("an encoder"));
        assert!(wordy.is_some_and(|text| text.contains("words in `b`")));
        assert_eq!(difference(&own, &own.without("y")).as_deref(), Some("it has other columns"));
    }

    #[test]
    fn data_that_cannot_be_learned_from_is_refused_with_its_place() {
        let rows = |row: &dyn Fn(usize) -> String| -> String {
            (0..20).map(row).fold("x,y\n".to_owned(), |text, row| text + &row + "\n")
        };
        let features = "features = [\"x\"]";
        let data = open(&rows(&|row| format!("{row},{row}")), features).expect("it differs");
        assert_eq!((data.train.len(), data.test.len()), (16, 4));
        assert!(data.notes.is_empty(), "{:?}", data.notes);
        let tiny = format!("{features}\ntest_fraction = 0.001");
        let data = open(&rows(&|row| format!("{row},{row}")), &tiny).expect("it differs");
        assert_eq!((data.train.len(), data.test.len()), (19, 1));
        assert!(data.notes[0].contains("5.0 % of the rows, not 0.1 %"), "{:?}", data.notes);
        for (text, setting, expected) in [
            (rows(&|row| format!("{row},7")), features, "target `y` is 7 in every training row"),
            (
                rows(&|row| if row == 4 { "4,".to_owned() } else { format!("{row},{row}") }),
                features,
                "a.csv` line 6, column `y`: the target is missing",
            ),
            (
                rows(&|row| match row {
                    // A record of two lines, and an empty line.
                    2 => "\"2\n\",2\n".to_owned(),
                    4 => "4,".to_owned(),
                    _ => format!("{row},{row}"),
                }),
                "features = [\"x\"]\ncategories = [\"x\"]",
                "a.csv` line 8, column `y`: the target is missing",
            ),
            (
                rows(&|row| if row == 4 { "1e39,4".to_owned() } else { format!("{row},{row}") }),
                features,
                "a.csv` line 6, column `x`: 1e39 is beyond what f32 holds",
            ),
            ("x,y\n1,2\n".to_owned(), features, "no row is left for the test"),
            (
                rows(&|row| format!(",{row}")),
                "features = [\"x\"]\ncategories = [\"x\"]",
                "no feature has a value in any training row",
            ),
        ] {
            let error = open(&text, setting).err().expect(expected);
            assert!(error.is_input() && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn data_that_is_not_there_is_reported_with_how_to_get_it() {
        let settings = |text: &str| {
            let settings = Settings::load(text, Path::new("c.toml"), &[]).expect("TOML");
            settings.with_keys(vec![data_plan::KEYS], &[]).expect("known keys")
        };
        let text = "[data]\nsource = \"files\"\nfiles = [\"gone.csv\"]\ntarget = \"y\"\n\
                    features = [\"x\"]\nhow_to_get = \"ask the author\"\n";
        let plan = DataPlan::read(&settings(text)).expect("valid");
        let dir = tempfile::tempdir().expect("temporary folder");
        for (dir, expected) in [(None, "--data DIR"), (Some(dir.path()), "gone.csv` which is not")]
        {
            let opening = Opening { dir, run: None, progress: &mut |_, _| {} };
            let error = TableData::open(&plan, 1, &opening).err().expect("no data");
            assert!(matches!(error, RunError::NoData { .. }), "{error}");
            let message = error.to_string().replace(", which", " which");
            assert!(message.contains(expected), "{message}");
            assert!(message.ends_with("; ask the author"), "{message}");
        }
    }
}
