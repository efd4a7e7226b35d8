//! Ranks that `mpirun` or Slurm started, over an MPI library.

use mpi::Threading;
use mpi::environment::Universe;
use mpi::request::StaticScope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};

use crate::{Collective, CollectiveError, Signal, Signals};

/// The exit code of a Rust program that panics.
const PANICKED: i32 = 101;

/// All ranks of an MPI program.
///
/// Keep it until the end of the program: dropping it finalizes MPI, which waits for all ranks.
/// So a rank that panics would wait for ranks that wait for it; [`Mpi::start`] makes a panic end the
/// process at once instead, and the launcher then ends the others.
pub struct Mpi {
    world: SimpleCommunicator,
    _universe: Universe,
}

impl Mpi {
    /// Initializes MPI, once a process, and makes a panic end it; `None` if MPI was initialized
    /// before.
    ///
    /// A program that no launcher started is the only rank.
    pub fn start() -> Option<Self> {
        // The watching thread sends signals while another waits in a call.
        let (universe, _) = mpi::initialize_with_threading(Threading::Multiple)?;
        let started = Self { world: universe.world(), _universe: universe };
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            Self::abort(PANICKED);
        }));
        Some(started)
    }

    /// Signals between the ranks, for [`Watched`](crate::Watched); `None` if the library allows calls
    /// from one thread only.
    pub fn signals(&self) -> Option<Box<dyn Signals>> {
        let is_there = mpi::environment::threading_support() == Threading::Multiple;
        is_there.then(|| Box::new(MpiSignals) as Box<dyn Signals>)
    }

    /// Ends every rank with an exit code.
    ///
    /// Call it between [`start`](Self::start) and the end of the engine.
    pub fn abort(code: i32) -> ! {
        SimpleCommunicator::world().abort(code)
    }

    /// The name and the version of the library.
    pub fn library(&self) -> String {
        mpi::environment::library_version().unwrap_or_default()
    }
}

/// MPI refuses empty buffers, since Rust gives all of them the same address.
impl Collective for Mpi {
    fn rank(&self) -> usize {
        usize::try_from(self.world.rank()).expect("MPI's ranks are not negative")
    }

    fn size(&self) -> usize {
        usize::try_from(self.world.size()).expect("MPI has at least one rank")
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        let root = i32::try_from(root).expect("MPI's ranks fit its integers");
        self.world.process_at_rank(root).broadcast_into(data);
        Ok(())
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        if !send.is_empty() {
            self.world.all_to_all_into(send, receive);
        }
        Ok(())
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        if !send.is_empty() {
            self.world.all_gather_into(send, receive);
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.world.barrier();
        Ok(())
    }
}

/// Messages of one byte among all ranks.
#[derive(Debug)]
struct MpiSignals;

/// The byte of every message; its tag is the signal.
static BYTE: u8 = 0;

const TAGS: [(Signal, i32); 2] = [(Signal::Question, 1), (Signal::Answer, 2)];

impl Signals for MpiSignals {
    fn send(&mut self, to: usize, signal: Signal) {
        let to = i32::try_from(to).expect("MPI's ranks fit its integers");
        let tag = TAGS.iter().find(|(other, _)| *other == signal).map_or(0, |(_, tag)| *tag);
        let world = SimpleCommunicator::world();
        let sent = world.process_at_rank(to).immediate_send_with_tag(StaticScope, &BYTE, tag);
        // Waiting for it would be waiting for a rank that hangs.
        std::mem::forget(sent);
    }

    fn receive(&mut self) -> Option<(usize, Signal)> {
        let world = SimpleCommunicator::world();
        TAGS.iter().find_map(|&(signal, tag)| {
            let (message, _) = world.any_process().immediate_matched_probe_with_tag(tag)?;
            let (_, status): (u8, _) = message.matched_receive();
            Some((usize::try_from(status.source_rank()).ok()?, signal))
        })
    }
}
