//! The schema of a table's features, `schema.toml`, which a configuration names in `data.schema`.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use updraft_run::{Opening, Plan, TASKS};

use crate::scratch;

/// Rows with numbers, words, truth values, dates, lists and missing values.
const ROWS: &str = "\
size,color,sold,day,tags,price
1.5,red,yes,2024-02-29,a;b,1
2,blue,no,2023-01-01,,2
?,red,yes,2022-12-31,b,3
4,,no,?,a,4
5,green,yes,2021-07-01,c;a,5
6,blue,no,2020-01-31,b,6
";

const CONFIG: &str = "\
task = \"tables\"
data = { source = \"files\", files = [\"rows.csv\"], test_fraction = 0.5 }
targets = { price = { kind = \"number\" } }
model = { hidden = 4 }
train = { epochs = 1, batch = 1 }
";

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch::folder("schema");
    fs::write(folder.join("rows.csv"), ROWS).expect("written");
    folder
});

/// Reads the schema, and the rows by it.
pub(super) fn schema(bytes: &[u8]) {
    let schema = FOLDER.join("schema.toml");
    fs::write(&schema, bytes).expect("written");
    let sets = [("data.dir", FOLDER.as_path()), ("data.schema", &schema)];
    let sets = sets.map(|(key, path)| format!("{key}={}", path.display()));
    let planned = Plan::read(TASKS, CONFIG, &FOLDER.join("rows.toml"), &sets).expect("a plan");
    let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
    let _ = planned.plan.task.open(&planned.plan, opening);
}

pub(super) fn schema_seeds() -> Vec<Vec<u8>> {
    [
        "[[column]]\nname = \"size\"\nkind = \"number\"\n\
         [[column]]\nname = \"color\"\nkind = \"category\"\nvalues = [\"red\", \"blue\"]\n\
         [[column]]\nname = \"sold\"\nkind = \"boolean\"\nmissing = false\n\
         [[column]]\nname = \"day\"\nkind = \"date\"\n\
         [[column]]\nname = \"tags\"\nkind = \"list\"\nseparator = \";\"\n",
        "[[column]]\nname = \"color\"\nkind = \"category\"\nunknown = false\n\
         values = [\"red\", \"blue\", \"green\"]\n",
        "[[column]]\nname = \"size\"\nkind = \"category\"\nmissing = false\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
