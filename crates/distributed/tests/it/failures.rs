//! Ranks that end, hang or pass something else.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use updraft_distributed::{
    Collective, CollectiveError, Signal, Signals, Stalled, Threads, Watched,
};

use crate::on_threads;

#[test]
fn a_rank_that_ends_is_reported_to_all_others() {
    let results = on_threads(4, |mut rank| {
        rank.barrier()?;
        if rank.rank() == 2 {
            return Ok(());
        }
        rank.barrier()
    });
    let lost = Err(CollectiveError::Lost { rank: 2 });
    assert_eq!(results, [lost.clone(), lost.clone(), Ok(()), lost]);
}

#[test]
fn a_rank_that_hangs_is_reported_after_the_timeout() {
    let mut ranks = Threads::group(2, Duration::from_millis(50));
    let hangs = ranks.pop().unwrap();
    let error = ranks[0].barrier().unwrap_err();
    assert_eq!(error, CollectiveError::TimedOut { rank: 1, seconds: 0 });
    drop(hangs);
}

#[test]
fn another_length_is_reported_on_both_sides() {
    let results = on_threads(2, |mut rank| {
        let mut data = vec![0; 4 + rank.rank()];
        rank.broadcast(0, &mut data)
    });
    assert_eq!(results[0], Err(CollectiveError::Length { rank: 1, expected: 4, found: 5 }));
    assert_eq!(results[1], Err(CollectiveError::Length { rank: 0, expected: 5, found: 4 }));
}

#[test]
fn a_watched_call_that_stalls_is_passed_on() {
    let mut ranks = Threads::group(2, Duration::from_secs(20));
    let (late, first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
    let (report, reports) = mpsc::channel();
    let timeout = Duration::from_millis(50);
    let mut watched =
        Watched::new(first, timeout, None, move |stalled| report.send(stalled).unwrap());
    assert_eq!((watched.rank(), watched.size()), (0, 2));
    let waiting = thread::spawn(move || watched.barrier());
    let Stalled { rank, call, waited, absent } = reports.recv().unwrap();
    assert_eq!((rank, call, absent), (0, "barrier", None));
    assert!(waited >= timeout);
    drop(late);
    assert_eq!(waiting.join().unwrap(), Err(CollectiveError::Lost { rank: 1 }));
}

/// Signals of a rank that is a thread.
#[derive(Debug)]
struct Channels {
    rank: usize,
    others: Vec<mpsc::Sender<(usize, Signal)>>,
    received: mpsc::Receiver<(usize, Signal)>,
}

impl Channels {
    fn group(size: usize) -> Vec<Self> {
        let (others, received): (Vec<_>, Vec<_>) = (0..size).map(|_| mpsc::channel()).unzip();
        let ranks = received.into_iter().enumerate();
        ranks.map(|(rank, received)| Self { rank, others: others.clone(), received }).collect()
    }
}

impl Signals for Channels {
    fn send(&mut self, to: usize, signal: Signal) {
        // A rank that has ended does not take it.
        let _ = self.others[to].send((self.rank, signal));
    }

    fn receive(&mut self) -> Option<(usize, Signal)> {
        self.received.try_recv().ok()
    }
}

#[test]
fn the_ranks_that_do_not_wait_are_named_by_the_first_that_does() {
    let (report, reports) = mpsc::channel();
    let signals = Channels::group(5);
    let ranks = Threads::group(5, Duration::from_secs(60)).into_iter().zip(signals);
    let (mut waiting, mut absent) = (Vec::new(), Vec::new());
    for (rank, signals) in ranks {
        // Ranks 2 and 4 ask at once, and rank 0 still waits.
        let timeout = Duration::from_millis(if rank.rank() == 0 { 60_000 } else { 100 });
        let report = report.clone();
        let is_absent = [1, 3].contains(&rank.rank());
        let on_stall = move |stalled| report.send(stalled).unwrap();
        let mut rank = Watched::new(rank, timeout, Some(Box::new(signals)), on_stall);
        if is_absent {
            absent.push(rank);
        } else {
            waiting.push(thread::spawn(move || rank.barrier()));
        }
    }
    let first = reports.recv().unwrap();
    assert_eq!((first.rank, first.absent), (2, Some(vec![1, 3])));
    drop(absent);
    for rank in waiting {
        assert!(rank.join().unwrap().is_err());
    }
}

#[test]
fn quick_calls_are_no_stall() {
    let stalls = on_threads(2, |rank| {
        let (report, reports) = mpsc::channel();
        let on_stall = move |stalled| report.send(stalled).unwrap();
        let mut watched = Watched::new(rank, Duration::from_secs(20), None, on_stall);
        (0..100).for_each(|_| watched.barrier().unwrap());
        drop(watched);
        reports.try_iter().count()
    });
    assert_eq!(stalls, [0, 0]);
}
