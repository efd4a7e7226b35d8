//! Which ranks wait for the others: asked by the threads that watch them.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What one watching thread sends to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Asks whether the rank waits in a call.
    Question,
    /// It does.
    Answer,
}

/// Sends signals between the threads that watch the ranks, while their other threads wait.
pub trait Signals: Debug + Send {
    /// Sends to a rank, without waiting until it receives.
    fn send(&mut self, to: usize, signal: Signal);

    /// The next signal that has arrived, with its rank; `None` if there is none yet.
    fn receive(&mut self) -> Option<(usize, Signal)>;
}

/// How long a rank waits for answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signals of a rank that waits in a call.
#[derive(Debug)]
pub(crate) struct RollCall {
    signals: Box<dyn Signals>,
    rank: usize,
    /// Which ranks have answered.
    is_waiting: Vec<bool>,
    /// The lowest rank that has asked.
    asked_by: Option<usize>,
    /// When this rank has asked.
    asked: Option<Instant>,
}

impl RollCall {
    pub(crate) fn new(signals: Box<dyn Signals>, rank: usize, size: usize) -> Self {
        let is_waiting = (0..size).map(|other| other == rank).collect();
        Self { signals, rank, is_waiting, asked_by: None, asked: None }
    }

    /// Takes what has arrived, and answers questions.
    pub(crate) fn receive(&mut self) {
        while let Some((rank, signal)) = self.signals.receive() {
            match signal {
                Signal::Answer => self.is_waiting[rank] = true,
                Signal::Question => {
                    self.signals.send(rank, Signal::Answer);
                    self.asked_by = self.asked_by.into_iter().chain([rank]).min();
                }
            }
        }
    }

    /// Asks all other ranks once, and returns those that have not answered in time.
    ///
    /// Of several ranks that ask, the lowest one is the first to know.
    pub(crate) fn absent(&mut self) -> Option<Vec<usize>> {
        let asked = *self.asked.get_or_insert_with(|| {
            for rank in (0..self.is_waiting.len()).filter(|rank| *rank != self.rank) {
                self.signals.send(rank, Signal::Question);
            }
            Instant::now()
        });
        let is_first = self.asked_by.is_none_or(|other| other > self.rank);
        let patience = PATIENCE * if is_first { 1 } else { 2 };
        let absent = || (0..self.is_waiting.len()).filter(|rank| !self.is_waiting[*rank]).collect();
        (asked.elapsed() >= patience).then(absent)
    }

    /// Forgets what was asked: the call has returned.
    pub(crate) fn end(&mut self) {
        self.is_waiting.iter_mut().enumerate().for_each(|(rank, is)| *is = rank == self.rank);
        (self.asked_by, self.asked) = (None, None);
    }
}
