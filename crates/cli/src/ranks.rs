//! The ranks of a run that a launcher such as `mpirun` started.

use anyhow::{Result, bail};
use updraft_distributed::{Alone, Collective, Launch, Launcher};
use updraft_run::{Beginning, Observer, RunError};
use updraft_trainer::{Control, Event};

use crate::stop;

/// The engine that connects this process with the others.
pub(crate) enum Connected {
    /// The only process.
    Alone(Alone),
    /// Processes that an MPI library connects.
    #[cfg(feature = "mpi")]
    Mpi(updraft_distributed::Mpi),
}

impl Connected {
    /// Connects with the other ranks; at most once per process.
    ///
    /// # Errors
    /// For a process that an MPI launcher started as one of several, if the program was built
    /// without MPI: each would train a run of its own.
    pub(crate) fn start() -> Result<Self> {
        let launch = Launch::detect(|name| std::env::var(name).ok())?;
        #[cfg(feature = "mpi")]
        if launch.is_some() {
            let Some(mpi) = updraft_distributed::Mpi::start() else {
                bail!("MPI was initialized before in this process");
            };
            return Ok(Self::Mpi(mpi));
        }
        if let Some(Launch { size, launcher, .. }) = launch
            && size > 1
            // Slurm sets its variables for the script of a job, too.
            && launcher != Launcher::Slurm
        {
            bail!(
                "this is one of {size} ranks, and this program was built without MPI: build it \
                 with the feature `mpi`, or start it without a launcher"
            );
        }
        Ok(Self::Alone(Alone))
    }

    pub(crate) fn collective(&mut self) -> &mut dyn Collective {
        match self {
            Self::Alone(alone) => alone,
            #[cfg(feature = "mpi")]
            Self::Mpi(mpi) => mpi,
        }
    }

    /// The result of a rank; an error of one of several ends all of them, because the others would
    /// wait for it.
    pub(crate) fn finish<T>(self, result: Result<T>) -> Result<T> {
        #[cfg(feature = "mpi")]
        if let (Err(error), Self::Mpi(mpi)) = (&result, &self)
            && mpi.size() > 1
        {
            let (rank, size) = (mpi.rank(), mpi.size());
            crate::terminal::say(&format!("error: rank {rank} of {size}: {error:#}"));
            mpi.abort(crate::exit_code(error).into());
        }
        result
    }
}

/// Observes a run on a rank that prints nothing.
pub(crate) struct Quiet;

impl Observer for Quiet {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn event(&mut self, _: &Event) -> Control {
        if stop::requested() { Control::Stop } else { Control::Continue }
    }
}
