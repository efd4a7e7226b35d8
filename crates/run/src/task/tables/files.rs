//! The rows of a plan's files as one table, with the file and line of each.

use std::path::PathBuf;

use updraft_data::{
    Collate, ColumnKind, DataError, Delimiter, Draw, Formula, InferredColumns, Table, TableError,
    TableSchema, TargetBatch, UntypedColumn, UntypedTable, formula_samples, interaction_csv,
    label_csv,
};

use super::column_error::{check_names, of_stray, of_table};
use super::data_plan::DataPlan;
use super::generated_rows::Generated;
use super::source_plan::FilesPlan;
use super::target_plan::{TargetKind, TargetsPlan};
use crate::error::RunError;

/// Files that are read as one table, training files first.
pub(super) struct Files<'a> {
    plan: &'a DataPlan,
    paths: Vec<PathBuf>,
    /// The number of training files.
    training: usize,
    /// The first row of each.
    starts: Vec<usize>,
    /// Their columns of features, if they were read with the targets.
    untyped: Option<UntypedTable>,
}

impl<'a> Files<'a> {
    pub(super) fn new(plan: &'a DataPlan, [training, test]: [Vec<PathBuf>; 2]) -> Self {
        let count = training.len();
        let paths = [training, test].concat();
        Self { plan, paths, training: count, starts: Vec::new(), untyped: None }
    }

    /// Reads the targets of all files, and the column of groups; returns them with the number of
    /// training rows.
    pub(super) fn targets(&mut self, targets: &TargetsPlan) -> Result<(Table, usize), RunError> {
        let schema = with_targets(self.plan.schema(), targets);
        let schema = match self.plan.source.group() {
            Some(group) => schema.category(group),
            None => schema,
        };
        let (table, starts) = match self.read_untyped(&schema, targets) {
            Some(read) => read,
            None => self.read(&schema, targets)?,
        };
        let training = starts.get(self.training).copied().unwrap_or(table.rows());
        self.starts = starts;
        Ok((table, training))
    }

    /// Reads the features of all files; training rows decide the kind of each column.
    pub(super) fn features(
        &mut self,
        targets: &TargetsPlan,
        is_training: &[bool],
    ) -> Result<Table, RunError> {
        let is_training = |row: usize| is_training.get(row).copied().unwrap_or(false);
        let mut untyped = self.untyped.take();
        let inferred = match &untyped {
            Some(untyped) => untyped.infer(is_training),
            None => self.infer(is_training)?,
        };
        let schema = feature_schema(self.plan, targets, &inferred)?;
        let read = untyped.as_mut().and_then(|untyped| untyped.take(&schema));
        drop(untyped);
        let mut table = match read {
            Some(table) => table,
            // Reading by the schema reports a field that does not fit, with its place.
            None => self.read(&schema, targets)?.0,
        };
        self.refuse_strays(&table, is_training)?;
        if let Some(files) = self.plan.source.with_file_features() {
            let ends = self.starts.iter().skip(2).copied().chain([table.rows()]);
            let own = self.starts.iter().skip(1).zip(ends);
            for ((&start, end), name) in own.zip(file_features(files)) {
                let rows = 0..table.rows();
                let is_own = |row| f64::from(u8::from((start..end).contains(&row)));
                table = table.with_numbers(name, rows.map(is_own).collect())?;
            }
        }
        Ok(table)
    }

    /// Returns an error for a column that is one of categories because of a few training rows.
    fn refuse_strays(
        &self,
        table: &Table,
        is_training: impl Fn(usize) -> bool,
    ) -> Result<(), RunError> {
        for column in &table.schema().columns {
            if given_kind(self.plan, &column.name).is_none()
                && let Some(stray) = table.stray_value(&column.name, &is_training)?
            {
                return Err(of_stray(&stray, &self.place(stray.row), &column.name));
            }
        }
        Ok(())
    }

    /// File and line of a row.
    pub(super) fn place(&self, row: usize) -> String {
        let file = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        let (path, record) = (&self.paths[file], row - self.starts[file]);
        let header = self.plan.schema().header;
        match Table::line_of(path, self.plan.source.delimiter_of(path), header.as_deref(), record) {
            Ok(line) => format!("`{}` line {line}", path.display()),
            // It was just read.
            Err(_) => format!("`{}` row {}", path.display(), record + 1),
        }
    }

    /// Reads all columns that the plan needs in one pass, keeps those of the features, and returns
    /// those of a schema with the first row of each file; `None` if that finds any fault, and for
    /// files with different delimiters.
    fn read_untyped(
        &mut self,
        schema: &TableSchema,
        targets: &TargetsPlan,
    ) -> Option<(Table, Vec<usize>)> {
        let plan = self.plan;
        if plan.columns.is_some() {
            return None;
        }
        let wanted = |name: &str| {
            let of_schema = schema.columns.iter().find(|column| column.name == name);
            let is_feature = || match &plan.features {
                Some(features) => features.iter().any(|feature| feature == name),
                None => !plan.leave_out.iter().any(|other| other == name),
            };
            match of_schema.map(|column| column.kind.clone()).or_else(|| given_kind(plan, name)) {
                Some(kind) => UntypedColumn::Of(kind),
                None if is_feature() && !targets.targets.contains_key(name) => {
                    UntypedColumn::Inferred
                }
                None => UntypedColumn::LeftOut,
            }
        };
        let delimiter = plan.source.delimiter_of(self.paths.first()?);
        if self.paths.iter().any(|path| plan.source.delimiter_of(path) != delimiter) {
            return None;
        }
        let read = UntypedTable::read(&self.paths, delimiter, &plan.schema(), wanted);
        let mut untyped = read.ok()?;
        let table = untyped.take(schema)?;
        let starts = untyped.starts().to_vec();
        self.untyped = Some(untyped);
        Some((table, starts))
    }

    /// The kinds of the columns, by the training rows.
    fn infer(
        &self,
        is_training: impl Fn(usize) -> bool + Sync,
    ) -> Result<InferredColumns, RunError> {
        let base = self.plan.schema();
        let mut inferred = InferredColumns::default();
        for (path, start) in self.paths.iter().zip(&self.starts).take(self.training) {
            let is_looked_at = |row| is_training(start + row);
            inferred.look_at(path, self.plan.source.delimiter_of(path), &base, is_looked_at)?;
        }
        Ok(inferred)
    }

    fn read(
        &self,
        schema: &TableSchema,
        targets: &TargetsPlan,
    ) -> Result<(Table, Vec<usize>), RunError> {
        let (mut whole, mut starts): (Option<Table>, _) = (None, Vec::new());
        for path in &self.paths {
            let table = Table::read(path, self.plan.source.delimiter_of(path), schema.clone())
                .map_err(|error| of_table(error, self.plan, targets))?;
            starts.push(whole.as_ref().map_or(0, Table::rows));
            whole = Some(match whole {
                None => table,
                Some(whole) => whole.append(&table)?,
            });
        }
        let whole = whole
            .ok_or_else(|| RunError::Unusable { reason: "the plan names no file".to_owned() })?;
        Ok((whole, starts))
    }
}

/// The feature of each file but the first, named as in the plan, because the data folder may
/// change.
pub(super) fn file_features(plan: &FilesPlan) -> impl Iterator<Item = String> {
    plan.files.iter().skip(1).map(|file| format!("from {}", file.display()))
}

/// The schema with a column for each target.
pub(super) fn with_targets(schema: TableSchema, targets: &TargetsPlan) -> TableSchema {
    targets.targets.iter().fold(schema, |schema, (name, target)| {
        schema.column(
            name,
            match target.kind {
                TargetKind::Number => ColumnKind::Number,
                TargetKind::Classes | TargetKind::Ordered => ColumnKind::Category,
                TargetKind::Labels => {
                    ColumnKind::MultiLabel { separator: target.separator.unwrap_or('|') }
                }
            },
        )
    })
}

/// The features, with the kinds of the plan, or those inferred from the training rows.
pub(super) fn feature_schema(
    plan: &DataPlan,
    targets: &TargetsPlan,
    inferred: &InferredColumns,
) -> Result<TableSchema, RunError> {
    let is_feature =
        |name: &&String| !targets.targets.contains_key(*name) && !plan.leave_out.contains(name);
    let names: Vec<String> = match &plan.features {
        Some(features) => features.clone(),
        None => inferred.names().iter().filter(is_feature).cloned().collect(),
    };
    // A misspelled name would be ignored.
    check_names(plan, inferred.names())?;
    if let Some((columns, _)) = &plan.columns {
        return Ok(columns.add_to(plan.schema()));
    }
    let mut schema = plan.schema();
    for name in names {
        let kind = match given_kind(plan, &name).or_else(|| inferred.kind(&name)) {
            Some(kind) => kind,
            // Reading it reports that it is missing.
            None if !inferred.names().contains(&name) => ColumnKind::Category,
            None => {
                let reason = format!(
                    "the column `{name}` has no value in any training row; leave it out with \
                     `data.leave_out`"
                );
                return Err(RunError::Unusable { reason });
            }
        };
        schema = schema.column(name, kind);
    }
    if schema.columns.is_empty() {
        let reason = "the files have no column beside the targets: nothing to predict from";
        return Err(RunError::Unusable { reason: reason.to_owned() });
    }
    Ok(schema)
}

/// The kind that the plan gives a feature.
pub(super) fn given_kind(plan: &DataPlan, name: &str) -> Option<ColumnKind> {
    let is_in = |names: &[String]| names.iter().any(|other| other == name);
    match plan.lists.get(name) {
        Some(separator) => Some(ColumnKind::MultiLabel { separator: *separator }),
        None if is_in(&plan.numbers) => Some(ColumnKind::Number),
        None if is_in(&plan.categories) => Some(ColumnKind::Category),
        None if is_in(&plan.booleans) => Some(ColumnKind::Boolean),
        None if is_in(&plan.dates) => Some(ColumnKind::Date),
        None => None,
    }
}

/// Generated rows as a table of targets and one of features.
pub(super) fn generated(
    plan: &DataPlan,
    targets: &TargetsPlan,
    (rows, [train_rows, test_rows]): (Generated, [usize; 2]),
    seed: u64,
) -> Result<[Table; 2], RunError> {
    // A different seed draws other rows.
    let other = seed ^ (1 << 63);
    let texts = match rows {
        Generated::Interactions => {
            [interaction_csv(train_rows, seed), interaction_csv(test_rows, other)]
        }
        Generated::Labels { noise } => {
            [label_csv(train_rows, seed, noise), label_csv(test_rows, other, noise)]
        }
        // Test values have no noise, so the error is that of the function.
        Generated::Formula { formula, noise } => [
            formula_csv(formula.into(), train_rows, noise, seed)?,
            formula_csv(formula.into(), test_rows, 0.0, other)?,
        ],
    };
    let read = |schema: &TableSchema| -> Result<Table, TableError> {
        let parse = |text: &String| {
            Table::parse(text.as_bytes(), "generated rows", Delimiter::Comma, schema.clone())
        };
        parse(&texts[0])?.append(&parse(&texts[1])?)
    };
    let mut inferred = InferredColumns::default();
    inferred.look_at_bytes(
        texts[0].as_bytes(),
        "generated rows",
        Delimiter::Comma,
        &plan.schema(),
        |_| true,
    )?;
    let features = feature_schema(plan, targets, &inferred)?;
    let read = |schema: &TableSchema| read(schema).map_err(|error| of_table(error, plan, targets));
    Ok([read(&with_targets(plan.schema(), targets))?, read(&features)?])
}

/// Samples of a formula as CSV, with the columns `x1`, `x2`, … and `y`; every f32 reads back as it
/// was.
fn formula_csv(formula: Formula, rows: usize, noise: f32, seed: u64) -> Result<String, DataError> {
    let set = formula_samples(formula, rows, noise, seed)?;
    let mut batch = set.begin(rows);
    for index in 0..rows {
        set.add(Draw { seed, epoch: 0, index }, &mut (), &mut batch)?;
    }
    let TargetBatch::Values { values, .. } = batch.targets() else {
        unreachable!("a formula has values")
    };
    let inputs = formula.inputs();
    let mut text: String = (1..=inputs).map(|input| format!("x{input},")).collect();
    text.push_str("y\n");
    for (row, value) in batch.values().chunks_exact(inputs).zip(values) {
        row.iter().for_each(|x| text.push_str(&format!("{},", f64::from(*x))));
        text.push_str(&format!("{}\n", f64::from(*value)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_formula_survive_as_text() {
        let text = formula_csv(Formula::Friedman1, 50, 0.5, 3).expect("drawn");
        let set = formula_samples(Formula::Friedman1, 50, 0.5, 3).expect("drawn");
        let schema =
            (1..=10).fold(TableSchema::new(), |schema, at| schema.number(format!("x{at}")));
        let table = Table::parse(text.as_bytes(), "inline", Delimiter::Comma, schema.number("y"));
        let table = table.expect("a table");
        let mut batch = set.begin(50);
        for index in 0..50 {
            set.add(Draw { seed: 3, epoch: 0, index }, &mut (), &mut batch).expect("added");
        }
        let TargetBatch::Values { values, .. } = batch.targets() else { panic!("no values") };
        let number =
            |name: &str, row| table.number(name, row).expect("a row").expect("a number") as f32;
        for row in 0..50 {
            assert_eq!(number("y", row).to_bits(), values[row].to_bits());
            for at in 0..10 {
                let found = number(&format!("x{}", at + 1), row);
                assert_eq!(found.to_bits(), batch.values()[10 * row + at].to_bits());
            }
        }
    }
}
