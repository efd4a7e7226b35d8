//! Keys beside a `kind` that the kind does not read: serde passes over them where it reads none.

use toml::{Table, Value};

use super::error::ConfigError;

/// Refuses a key that stands beside a `kind` and is missing in the plan that was decided.
///
/// Both tables are whole configurations; what is looked at are their sections' tables.
pub(crate) fn refuse_unread(given: &Table, plan: &Table) -> Result<(), ConfigError> {
    for (section, tables) in tables(given) {
        for (name, table) in self::tables(tables) {
            let decided = plan.get(section).and_then(|section| section.get(name));
            let Some(decided) = decided.and_then(Value::as_table) else { continue };
            let Some(kind) = table.get("kind") else { continue };
            if let Some(key) = table.keys().find(|key| !decided.contains_key(*key)) {
                let key = format!("{section}.{name}.{key}");
                return Err(ConfigError::Unread { key, kind: kind.to_string() });
            }
        }
    }
    Ok(())
}

fn tables(of: &Table) -> impl Iterator<Item = (&String, &Table)> {
    of.iter().filter_map(|(name, value)| Some((name, value.as_table()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_belongs_to_another_kind_is_refused_by_its_path() {
        let table = |text: &str| toml::from_str::<Table>(text).expect("TOML");
        let plan = table("[train]\nnon_finite = { kind = \"stop\" }\nepochs = 3");
        refuse_unread(&plan, &plan).expect("all is read");
        let given = table("[train]\nnon_finite = { kind = \"stop\", at_most = 3 }");
        let told = refuse_unread(&given, &plan).expect_err("nothing reads it").to_string();
        assert!(told.contains("`train.non_finite.at_most`") && told.contains("\"stop\""), "{told}");
    }
}
