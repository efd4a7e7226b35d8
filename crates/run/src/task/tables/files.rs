//! The rows of a plan's files as one table, with the file and line of each.

use std::path::PathBuf;

use updraft_data::{ColumnKind, Delimiter, InferredColumns, Table, TableError, TableSchema};

use super::data_plan::DataPlan;
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
}

impl<'a> Files<'a> {
    pub(super) fn new(plan: &'a DataPlan, [training, test]: [Vec<PathBuf>; 2]) -> Self {
        let count = training.len();
        Self { plan, paths: [training, test].concat(), training: count, starts: Vec::new() }
    }

    /// Reads the targets of all files; returns them with the number of training rows.
    pub(super) fn targets(&mut self, targets: &TargetsPlan) -> Result<(Table, usize), RunError> {
        let schema = with_targets(self.plan.schema(), targets);
        let (table, starts) = self.read(&schema)?;
        let training = starts.get(self.training).copied().unwrap_or(table.rows());
        self.starts = starts;
        Ok((table, training))
    }

    /// Reads the features of all files; training rows decide the kind of each column.
    pub(super) fn features(
        &self,
        targets: &TargetsPlan,
        is_training: &[bool],
    ) -> Result<Table, RunError> {
        let base = self.plan.schema();
        let mut inferred = InferredColumns::default();
        for (path, start) in self.paths.iter().zip(&self.starts).take(self.training) {
            let is_looked_at = |row| is_training.get(start + row).copied().unwrap_or(false);
            inferred.look_at(path, self.plan.delimiter(), &base, is_looked_at)?;
        }
        let schema = feature_schema(self.plan, targets, &inferred)?;
        Ok(self.read(&schema)?.0)
    }

    /// File and line of a row.
    pub(super) fn place(&self, row: usize) -> String {
        let file = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        let (path, record) = (&self.paths[file], row - self.starts[file]);
        let header = self.plan.schema().header;
        match Table::line_of(path, self.plan.delimiter(), header.as_deref(), record) {
            Ok(line) => format!("`{}` line {line}", path.display()),
            // It was just read.
            Err(_) => format!("`{}` row {}", path.display(), record + 1),
        }
    }

    fn read(&self, schema: &TableSchema) -> Result<(Table, Vec<usize>), RunError> {
        let (mut whole, mut starts): (Option<Table>, _) = (None, Vec::new());
        for path in &self.paths {
            let table = Table::read(path, self.plan.delimiter(), schema.clone())?;
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
    let named = [&plan.leave_out, &plan.numbers, &plan.categories];
    let named = named.into_iter().flatten().chain(plan.lists.keys()).chain(plan.replace.keys());
    for name in named {
        if !inferred.names().contains(name) {
            let reason = format!(
                "the files have no column `{name}`, which `data` names; they have `{}`",
                inferred.names().join("`, `")
            );
            return Err(RunError::Unusable { reason });
        }
    }
    let mut schema = plan.schema();
    for name in names {
        let kind = if let Some(separator) = plan.lists.get(&name) {
            ColumnKind::MultiLabel { separator: *separator }
        } else if plan.numbers.contains(&name) {
            ColumnKind::Number
        } else if plan.categories.contains(&name) {
            ColumnKind::Category
        } else {
            match inferred.kind(&name) {
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

/// Generated rows as a table of targets and one of features.
pub(super) fn generated(
    plan: &DataPlan,
    targets: &TargetsPlan,
    (train_rows, test_rows): (usize, usize),
    seed: u64,
) -> Result<[Table; 2], RunError> {
    // A different seed draws other rows.
    let parts = [(train_rows, seed), (test_rows, seed ^ (1 << 63))];
    let texts = parts.map(|(rows, seed)| updraft_data::interaction_csv(rows, seed));
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
    Ok([read(&with_targets(plan.schema(), targets))?, read(&features)?])
}
