//! Tables: columns read in one pass, and their encoding fitted on the training part.

mod asked;
mod blocks;
mod columns;
mod compose;
mod encoded;
mod encoder;
mod error;
mod feature;
mod field_ends;
mod infer;
mod instant;
mod number;
mod open;
mod parallel;
mod pieces;
mod plain_columns;
mod plain_records;
mod quotes;
mod ready_column;
mod records;
mod row_config;
mod row_source;
mod rows;
mod rules;
mod scale;
mod schema;
mod untyped;
mod vocabulary;
mod words;

pub use blocks::TableBlocks;
pub use columns::Table;
pub use encoded::EncodedTable;
pub use encoder::{ColumnEncoder, FitConfig, TableEncoder};
pub use error::TableError;
pub use feature::FeatureEncoder;
pub use infer::InferredColumns;
pub use records::Delimiter;
pub use row_config::{CategoryEncoding, RowConfig};
pub use rows::{EncodedRows, RowEncoder};
pub use rules::ColumnRules;
pub use scale::{NumberScale, Scaling};
pub use schema::{ColumnKind, ColumnSchema, TableSchema};
pub use untyped::{UntypedColumn, UntypedTable};
pub use vocabulary::Vocabulary;

pub(crate) use records::Records;
