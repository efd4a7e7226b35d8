//! Messages about columns that are probably not the features as which they are read.

use updraft_data::{Doubt, DoubtfulColumn, FeatureEncoder, RowEncoder, Table};

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

/// A message for each feature whose values are all unknown.
pub(super) fn without_words(encoder: &RowEncoder, plan: &DataPlan) -> Vec<String> {
    let cause = match plan.min_rows {
        0 | 1 => "training rows have none of the `values` of its schema".to_owned(),
        least => format!("no value is in `data.min_rows` = {least} training rows"),
    };
    let is_empty = |feature: &FeatureEncoder| match feature {
        FeatureEncoder::Category { vocabulary, .. } => vocabulary.words().is_empty(),
        _ => false,
    };
    let names = encoder.features().filter(|(_, feature)| is_empty(feature)).map(|(name, _)| name);
    names.map(|name| format!("every value of column `{name}` is unknown: {cause}")).collect()
}

fn message(name: &str, doubtful: &DoubtfulColumn) -> Option<String> {
    let DoubtfulColumn { doubt, example, other, fitting, values, .. } = doubtful;
    let others = other.as_ref().map_or_else(String::new, |other| {
        format!(
            "; another is `{other}`: add it to `data.missing` if it stands for a missing value, or \
             correct it"
        )
    });
    let looks_like = |what: &str, remedy: &str| {
        format!(
            "column `{name}` is read as categories, and {fitting} of its {values} training values \
             look like {what}, such as `{example}`: {remedy}{others}"
        )
    };
    let are = |what: &str| {
        format!(
            "column `{name}` is read as categories, although {fitting} of its {values} training \
             values are {what}, such as `{example}`{others}"
        )
    };
    Some(match doubt {
        Doubt::SomeNumbers => are("numbers"),
        Doubt::SomeDates => are("dates"),
        Doubt::DecimalComma => {
            looks_like("numbers with a decimal comma", "write a point to use them as numbers")
        }
        Doubt::Thousands => looks_like(
            "numbers with separators of thousands",
            "remove the separators to use them as numbers",
        ),
        Doubt::Unit => looks_like("numbers with a unit", "remove the unit to use them as numbers"),
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
