//! The ranks of a run that a launcher such as `mpirun` started.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};
#[cfg(any(feature = "mpi", test))]
use updraft_distributed::Stalled;
use updraft_distributed::{Alone, Collective, Launch, Shared};
#[cfg(feature = "mpi")]
use updraft_distributed::{Delayed, Signals, Watched};
use updraft_run::{Beginning, DistributedPlan, NeedsSingleRank, Observer, Plan, RunError};
use updraft_trainer::{Control, Event};

use crate::command::launch::note_process;
use crate::stop;

/// What connects this process with the other ranks.
pub(crate) struct Connected {
    collective: Shared,
    launch: Option<Launch>,
}

impl Connected {
    /// Connects with the other ranks; at most once per process.
    ///
    /// `before` receives the number of this rank on its machine and may restart the program, which
    /// MPI does not survive.
    ///
    /// A rank that waits for the others longer than planned ends the process, and thereby all of
    /// them.
    ///
    /// # Errors
    /// For a process that an MPI launcher started as one of several, if the program was built
    /// without MPI: each would train a run of its own.
    pub(crate) fn start(
        distributed: &DistributedPlan,
        before: impl FnOnce(Option<usize>) -> Result<()>,
    ) -> Result<Self> {
        let launch = Launch::detect(|name| std::env::var(name).ok())?;
        before(local_rank(launch))?;
        if launch.is_some_and(|launch| launch.rank == 0) {
            note_process();
        }
        #[cfg(feature = "mpi")]
        if let Some(launch) = launch {
            let Some(mpi) = updraft_distributed::Mpi::start() else {
                bail!("MPI was initialized before in this process");
            };
            check_size(launch, mpi.size())?;
            let patience = distributed.patience();
            let signals = mpi.signals();
            let collective = match distributed.added_network() {
                Some(network) => watched(Delayed::new(mpi, network), patience, signals),
                None => watched(mpi, patience, signals),
            };
            return Ok(Self { collective, launch: Some(launch) });
        }
        let _ = distributed;
        if let Some(Launch { size, .. }) = launch
            && size > 1
        {
            bail!(
                "this is one of {size} ranks, and this program was built without MPI: build it \
                 with the feature `mpi`, or start it without a launcher"
            );
        }
        Ok(Self { collective: Shared::new(Alone), launch: None })
    }

    pub(crate) fn collective(&self) -> Shared {
        self.collective.clone()
    }

    /// The number of this rank on its machine, which chooses among several devices of one kind.
    pub(crate) fn local_rank(&self) -> Option<usize> {
        local_rank(self.launch)
    }

    /// The result of a rank; an error of one of several ends all of them, because the others would
    /// wait for it.
    ///
    /// An error that all ranks have is reported by rank 0, which ends the others meanwhile.
    pub(crate) fn finish<T>(self, result: Result<T>) -> Result<T> {
        #[cfg(feature = "mpi")]
        if let Err(error) = &result
            && self.collective.size() > 1
        {
            let (rank, size) = (self.collective.rank(), self.collective.size());
            if rank > 0 {
                std::thread::sleep(OF_RANK_0);
            }
            crate::terminal::say(&format!("error: rank {rank} of {size}: {error:#}"));
            updraft_distributed::Mpi::abort(crate::exit_code(error).into());
        }
        result
    }
}

/// Waits, on another rank than 0, before an error is reported: one that all ranks have is reported by
/// rank 0, whose end makes `mpirun` end the others meanwhile. `srun` does so with
/// `--kill-on-bad-exit` only.
pub(crate) fn wait_for_rank_0() {
    if is_after_rank_0() {
        std::thread::sleep(OF_RANK_0);
    }
}

/// Whether a launcher started this process as another rank than 0, which prints.
pub(crate) fn is_after_rank_0() -> bool {
    let launch = Launch::detect(|name| std::env::var(name).ok());
    launch.is_ok_and(|launch| launch.is_some_and(|launch| launch.rank > 0))
}

/// How long another rank waits for an error of rank 0: `mpirun` kills it a second after it has asked
/// it to end.
const OF_RANK_0: Duration = Duration::from_secs(5);

/// Returns an error for a rank that MPI connects with fewer others than its launcher started: each
/// group would train a run of its own.
#[cfg(feature = "mpi")]
fn check_size(launch: Launch, connected: usize) -> Result<()> {
    let Launch { launcher, size, .. } = launch;
    if connected != size {
        let launcher = launcher.name();
        bail!(
            "this is one of {size} ranks of {launcher}, of which MPI connects {connected}: start \
             them by the `mpirun` of the MPI library of this program, or by `srun --mpi=pmix`"
        );
    }
    Ok(())
}

/// Ends all ranks if a call of a collective takes too long.
#[cfg(feature = "mpi")]
fn watched(
    collective: impl Collective + 'static,
    patience: Duration,
    signals: Option<Box<dyn Signals>>,
) -> Shared {
    Shared::new(Watched::new(collective, patience, signals, move |stalled| {
        crate::terminal::say(&format!("error: {}", describe(&stalled, patience)));
        updraft_distributed::Mpi::abort(HANGS);
    }))
}

/// The exit code of ranks that waited too long, which `launch` starts again.
#[cfg(feature = "mpi")]
const HANGS: i32 = 124;

/// Which ranks hang, as far as it is known.
#[cfg(any(feature = "mpi", test))]
fn describe(stalled: &Stalled, patience: Duration) -> String {
    let Stalled { rank, call, absent, .. } = stalled;
    let limit = format!("within {} s, `train.distributed.timeout`", patience.as_secs());
    let restart = "restart the run from its last checkpoint";
    match absent.as_deref() {
        None => format!(
            "other ranks did not arrive at rank {rank}'s `{call}` {limit}; the MPI library has no \
             threads to find out which; {restart}"
        ),
        Some([]) => format!(
            "all ranks wait, and rank {rank}'s `{call}` did not end {limit}: the network loses \
             messages, or the ranks exchange different things; {restart}"
        ),
        Some([absent]) => format!(
            "rank {absent} did not arrive at `{call}` {limit}; it hangs, or computes for longer; \
             {restart}"
        ),
        Some(absent) => {
            let absent: Vec<_> = absent.iter().map(usize::to_string).collect();
            format!(
                "ranks {} did not arrive at `{call}` {limit}; they hang, or compute for longer; \
                 {restart}",
                absent.join(", ")
            )
        }
    }
}

fn local_rank(launch: Option<Launch>) -> Option<usize> {
    launch.filter(|launch| launch.size > 1).and_then(|launch| launch.local_rank)
}

/// Opens data on every rank: at once, or first on rank 0 if it writes caches, which the others read.
///
/// An error of rank 0 comes before that of another rank, which waits for it.
pub(crate) fn open_on_ranks<T>(
    ranks: &mut dyn Collective,
    writes_caches: bool,
    open: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if ranks.rank() == 0 {
        let opened = open()?;
        ranks.barrier()?;
        return Ok(opened);
    }
    if writes_caches {
        ranks.barrier()?;
        return open();
    }
    let opened = open();
    ranks.barrier()?;
    opened
}

/// Returns an error for settings that a run on several ranks does not support.
pub(crate) fn refuse_on_ranks(plan: &Plan, ranks: usize, is_resumed: bool) -> Result<()> {
    if ranks == 1 {
        return Ok(());
    }
    if plan.train.auto_batch.is_some() && !is_resumed {
        bail!(
            "`train.auto_batch`, or \"auto\" for `train.batch`, needs a single rank; set \
             `train.batch` to a number, the samples of all ranks"
        );
    }
    let batch = plan.train.batch;
    if batch < ranks {
        bail!("`train.batch` is {batch}, the samples of all ranks; it must be at least {ranks}");
    }
    let key = "train.recompute_batch_norms";
    let recomputed = plan.train.recompute_batch_norms;
    let recomputed = recomputed.map(|_| NeedsSingleRank { key, advice: "remove it" });
    match recomputed.or(plan.task.needs_single_rank()) {
        Some(setting) => Err(RunError::SingleRank(setting).into()),
        None => Ok(()),
    }
}

/// The arguments with which `mpirun` starts ranks of a program on this machine.
pub(crate) fn mpirun_arguments(ranks: usize) -> Vec<OsString> {
    let options = ["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none"];
    // Many containers forbid the system call behind single copies between processes.
    let transport = ["--mca", "btl_vader_single_copy_mechanism", "none"];
    options.into_iter().chain(transport).map(Into::into).collect()
}

/// Open MPI refuses to start as root without both, and containers often have no other user.
pub(crate) const AS_ROOT: [(&str, &str); 2] =
    [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use anyhow::{Result, bail, ensure};
    use updraft_distributed::{Collective, Stalled, Threads};

    use super::{describe, open_on_ranks};

    #[test]
    fn the_ranks_that_hang_are_named() {
        let describe = |absent: Option<Vec<usize>>| {
            let waited = Duration::from_secs(31);
            let stalled = Stalled { rank: 2, call: "barrier", waited, absent };
            describe(&stalled, Duration::from_secs(30))
        };
        for (absent, expected) in [
            (Some(vec![1]), "rank 1 did not arrive at `barrier` within 30 s"),
            (Some(vec![0, 3]), "ranks 0, 3 did not arrive at `barrier` within 30 s"),
            (Some(vec![]), "all ranks wait, and rank 2's `barrier` did not end within 30 s"),
            (None, "other ranks did not arrive at rank 2's `barrier` within 30 s"),
        ] {
            let text = describe(absent);
            assert!(text.starts_with(expected), "{text}");
            assert!(text.contains("`train.distributed.timeout`"), "{text}");
        }
    }

    /// What each of two ranks returns from opening with `open`, which receives the rank.
    fn on_two_ranks<R: Send>(open: impl Fn(usize, &mut dyn Collective) -> R + Sync) -> Vec<R> {
        let (engines, open) = (Threads::group(2, Duration::from_secs(60)), &open);
        thread::scope(|scope| {
            let ranks: Vec<_> = engines
                .into_iter()
                .map(|mut engine| scope.spawn(move || open(engine.rank(), &mut engine)))
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn ranks_open_data_without_caches_at_once() {
        let (opening, started) = (AtomicUsize::new(0), Instant::now());
        let opened = on_two_ranks(|rank, ranks| {
            open_on_ranks(ranks, false, || {
                opening.fetch_add(1, Ordering::SeqCst);
                while opening.load(Ordering::SeqCst) < 2 {
                    ensure!(started.elapsed() < Duration::from_secs(20), "rank {rank} is alone");
                    thread::yield_now();
                }
                Ok(rank)
            })
        });
        assert_eq!(opened.into_iter().collect::<Result<Vec<_>>>().unwrap(), [0, 1]);
    }

    #[test]
    fn rank_0_opens_data_with_caches_before_the_others() {
        let (opened, order) = channel();
        for result in on_two_ranks(|rank, ranks| {
            open_on_ranks(ranks, true, || {
                // Rank 1 would be earlier if it did not wait.
                thread::sleep(Duration::from_millis(if rank == 0 { 50 } else { 0 }));
                Ok(opened.send(rank)?)
            })
        }) {
            result.unwrap();
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn an_error_of_another_rank_waits_for_rank_0() {
        let (opened, order) = channel();
        let results = on_two_ranks(|rank, ranks| {
            let result = open_on_ranks(ranks, false, || {
                if rank == 1 {
                    bail!("rank 1 cannot open it");
                }
                thread::sleep(Duration::from_millis(50));
                Ok(opened.send(0)?)
            });
            opened.send(1)?;
            result
        });
        assert!(results[0].is_ok());
        assert!(results[1].as_ref().unwrap_err().to_string().contains("rank 1 cannot"));
        assert_eq!(order.try_iter().next(), Some(0), "rank 0 has opened before rank 1 returned");
    }
}
