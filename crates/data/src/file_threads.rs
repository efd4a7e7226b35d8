//! Work on files, on threads of its own: they wait for the file system.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Does a piece of work, by its number, and sends results; returns whether they are received.
type Work<'a, T> = dyn Fn(usize, &Sender<T>) -> bool + Sync + 'a;

/// Does the pieces `0..count` of some work on up to `threads` threads of this name, and calls
/// `receive` on the calling thread with what they send.
///
/// Pieces begin in order. After a [`ControlFlow::Break`] of `receive` none begins, and those that have
/// begun end: of the pieces that break, the first one is always received.
pub(crate) fn on_threads<T: Send>(
    name: &str,
    (count, threads): (usize, usize),
    work: &Work<'_, T>,
    receive: &mut dyn FnMut(T) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let run = |sender: &Sender<T>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // Nothing receives after a panic of `receive`.
            if at >= count || !work(at, sender) {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        let mut started = 0;
        for _ in 0..threads.min(count) {
            let (sender, run) = (sender.clone(), &run);
            let builder = thread::Builder::new().name(name.to_owned());
            started += usize::from(builder.spawn_scoped(scope, move || run(&sender)).is_ok());
        }
        if started == 0 {
            run(&sender);
        }
        drop(sender);
        for sent in receiver {
            if receive(sent).is_break() {
                next.store(count, Ordering::Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_piece_is_received_once_from_any_number_of_threads() {
        for threads in [0, 1, 3, 100] {
            let mut squares: Vec<Option<usize>> = vec![None; 50];
            let work =
                |at: usize, sender: &Sender<(usize, usize)>| sender.send((at, at * at)).is_ok();
            let mut receive = |(at, square): (usize, usize)| {
                assert_eq!(squares[at].replace(square), None);
                ControlFlow::Continue(())
            };
            on_threads("test", (50, threads), &work, &mut receive);
            let expected: Vec<Option<usize>> = (0..50).map(|at| Some(at * at)).collect();
            assert_eq!(squares, expected, "{threads}");
        }
    }

    #[test]
    fn the_first_piece_that_breaks_is_received_and_the_last_ones_do_not_begin() {
        for _ in 0..5 {
            let mut broken = Vec::new();
            let work = |at: usize, sender: &Sender<usize>| {
                // The last ones would begin before the first break is received.
                thread::sleep(Duration::from_millis(1));
                sender.send(at).is_ok()
            };
            let mut receive = |at: usize| {
                if at < 7 {
                    return ControlFlow::Continue(());
                }
                broken.push(at);
                ControlFlow::Break(())
            };
            on_threads("test", (2000, 4), &work, &mut receive);
            assert!(broken.contains(&7) && broken.len() < 1000, "{broken:?}");
        }
    }
}
