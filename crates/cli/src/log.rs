//! Logging: to the terminal at the requested level, and to `log.jsonl` of a run.

use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::terminal::without_invisible;

/// Receives the file of the run when it exists; earlier records are not stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile(Arc<Mutex<Option<File>>>);

impl LogFile {
    /// Sends all further records to this file.
    pub(crate) fn set(&self, file: File) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write_all(bytes).map(|()| bytes.len()),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Standard error: records contain names of files, and colors.
struct Terminal;

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        stderr().write_all(without_invisible(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// Whether the environment does not switch colors off (<https://no-color.org>).
fn allows_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Installs the subscriber of this process; later calls change nothing.
///
/// The file contains our own records from level `info`, or from `debug` if the terminal shows them.
pub(crate) fn install(terminal: LevelFilter) -> LogFile {
    let file = LogFile::default();
    let in_file = EnvFilter::new(format!(
        "off,updraft={0},updraft_data={0},updraft_device={0},updraft_kan={0},updraft_precision={0},updraft_trainer={0}",
        terminal.max(LevelFilter::INFO)
    ));
    let installed = tracing_subscriber::registry()
        .with(
            tracing_subscriber::fmt::layer()
                .with_writer(|| Terminal)
                .with_ansi(stderr().is_terminal() && allows_color())
                .with_target(false)
                .with_filter(terminal),
        )
        .with(
            tracing_subscriber::fmt::layer().json().with_writer(file.clone()).with_filter(in_file),
        )
        .try_init();
    drop(installed);
    file
}
