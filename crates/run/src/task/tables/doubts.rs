//! Messages about columns that are probably not the features as which they are read.

use updraft_data::{Doubt, DoubtfulColumn, Table};

use super::data_plan::DataPlan;
use super::files::given_kind;
use crate::error::RunError;

/// A message for each feature whose kind was inferred and is in doubt, by the training rows.
pub(super) fn doubts(
    plan: &DataPlan,
    features: &Table,
    is_training: &[bool],
) -> Result<Vec<String>, RunError> {
    let mut messages = Vec::new();
    if plan.columns.is_some() {
        return Ok(messages);
    }
    for (at, column) in features.schema().columns.iter().enumerate() {
        let name = &column.name;
        if given_kind(plan, name).is_some() {
            continue;
        }
        if name.is_empty() {
            messages.push(format!(
                "the feature {} has no name in the header, as an index that pandas writes; if it is \
                 one, leave it out with `data.leave_out = [\"\"]`",
                at + 1
            ));
        } else if let Some(doubtful) = features.doubt(name, |row| is_training[row])? {
            messages.extend(message(name, &doubtful));
        }
    }
    Ok(messages)
}

fn message(name: &str, doubtful: &DoubtfulColumn) -> Option<String> {
    let DoubtfulColumn { doubt, example, fitting, values, .. } = doubtful;
    let looks_like = |what: &str, remedy: &str| {
        format!(
            "column `{name}` is read as categories, and {fitting} of its {values} training values \
             look like {what}, such as `{example}`: {remedy}"
        )
    };
    Some(match doubt {
        Doubt::DecimalComma => {
            looks_like("numbers with a decimal comma", "write a point to use them as numbers")
        }
        Doubt::Thousands => looks_like(
            "numbers with separators of thousands",
            "remove the separators to use them as numbers",
        ),
        Doubt::Unit => looks_like(
            "numbers with a sign of a currency or `%`",
            "remove the sign to use them as numbers",
        ),
        Doubt::Date => looks_like("dates", "write them as `2024-02-29` to use them as dates"),
        Doubt::Identifiers => format!(
            "column `{name}` is read as categories, and has {fitting} different ones in {values} \
             training values, such as `{example}`: if it identifies rows, leave it out with \
             `data.leave_out`"
        ),
        Doubt::RowNumbers => format!(
            "the values of column `{name}` count the rows, from {example} on: if it identifies \
             rows, leave it out with `data.leave_out`"
        ),
        _ => return None,
    })
}
