//! The rank of a process, from the environment that its launcher set.

/// The launcher of a process that is one rank of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun` of MPICH and Intel MPI.
    Mpich,
    /// `torchrun`.
    Torchrun,
    /// `srun`.
    Slurm,
}

impl Launcher {
    /// The name of the program.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "mpirun of Open MPI",
            Self::Mpich => "mpirun of MPICH",
            Self::Torchrun => "torchrun",
            Self::Slurm => "srun",
        }
    }
}

/// A launcher's variables: rank, number of ranks, rank on its machine.
const VARIABLES: [(Launcher, [&str; 3]); 4] = [
    (
        Launcher::OpenMpi,
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ),
    (Launcher::Mpich, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"]),
    (Launcher::Torchrun, ["RANK", "WORLD_SIZE", "LOCAL_RANK"]),
    (Launcher::Slurm, ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"]),
];

/// One rank, as its launcher describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The launcher of the process.
    pub launcher: Launcher,
    /// The number of this rank.
    pub rank: usize,
    /// How many ranks there are.
    pub size: usize,
    /// The number of this rank on its machine, which chooses its device.
    pub local_rank: Option<usize>,
}

/// Errors of the launcher's environment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A variable is set without its partner.
    #[error("the environment has `{present}` but no `{missing}`")]
    Missing {
        /// The variable that is set.
        present: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },
    /// A variable is not a number.
    #[error("the environment's `{variable}` is `{value}`; it must be a number")]
    NotANumber {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The rank is not one of the ranks.
    #[error("the environment's `{variable}` is {rank}; it must be less than the {size} ranks")]
    Rank {
        /// The variable.
        variable: &'static str,
        /// Its value.
        rank: usize,
        /// How many ranks there are.
        size: usize,
    },
}

impl Launch {
    /// Reads the variables of the known launchers, the first that has set its own.
    ///
    /// `variable` looks one up, as `|name| std::env::var(name).ok()` does. `None` if no launcher
    /// started the process.
    ///
    /// # Errors
    /// [`LaunchError`] if a launcher's variables are incomplete or contradict each other.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, LaunchError> {
        let is_set = |name| variable(name).is_some();
        // Slurm sets the rank for the script of a job, too, which is not one of several.
        let started = VARIABLES.into_iter().find(|(launcher, [rank, size, _])| {
            is_set(rank) && (*launcher != Launcher::Slurm || is_set(size))
        });
        let Some((launcher, [rank_name, size_name, local_name])) = started else {
            return Ok(None);
        };
        let number = |name| match variable(name) {
            None => Ok(None),
            Some(value) => match value.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(LaunchError::NotANumber { variable: name, value }),
            },
        };
        let required =
            |name| number(name)?.ok_or(LaunchError::Missing { present: rank_name, missing: name });
        let (rank, size) = (required(rank_name)?, required(size_name)?);
        if rank >= size {
            return Err(LaunchError::Rank { variable: rank_name, rank, size });
        }
        Ok(Some(Self { launcher, rank, size, local_rank: number(local_name)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> Result<Option<Launch>, LaunchError> {
        Launch::detect(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_read() {
        for (launcher, [rank, size, local]) in VARIABLES {
            let found = detect(&[(rank, "5"), (size, "8"), (local, "1")]).unwrap().unwrap();
            assert_eq!(found, Launch { launcher, rank: 5, size: 8, local_rank: Some(1) });
        }
        assert_eq!(detect(&[("PATH", "/bin")]), Ok(None));
    }

    #[test]
    fn mpirun_inside_a_slurm_job_is_mpirun() {
        let variables = [
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ];
        let found = detect(&variables).unwrap().unwrap();
        assert_eq!((found.launcher, found.rank, found.size), (Launcher::OpenMpi, 1, 2));
        assert_eq!(found.local_rank, None);
    }

    #[test]
    fn the_script_of_a_slurm_job_is_no_rank() {
        let variables = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_LOCALID", "0")];
        assert_eq!(detect(&variables), Ok(None));
    }

    #[test]
    fn incomplete_and_contradicting_variables_are_refused() {
        let cases = [
            (vec![("RANK", "0")], "the environment has `RANK` but no `WORLD_SIZE`"),
            (
                vec![("RANK", "x"), ("WORLD_SIZE", "2")],
                "the environment's `RANK` is `x`; it must be a number",
            ),
            (
                vec![("RANK", "2"), ("WORLD_SIZE", "2")],
                "the environment's `RANK` is 2; it must be less than the 2 ranks",
            ),
        ];
        for (variables, expected) in cases {
            assert_eq!(detect(&variables).unwrap_err().to_string(), expected);
        }
    }
}
