//! Ranks that `mpirun` or Slurm started, over an MPI library.

use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};

use crate::{Collective, CollectiveError};

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
        let universe = mpi::initialize()?;
        let started = Self { world: universe.world(), _universe: universe };
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            std::process::abort();
        }));
        Some(started)
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
