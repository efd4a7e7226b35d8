//! The contract of every engine for bytes and texts.

use updraft_distributed::{Alone, Collective, CollectiveError, Share, agree, gather};

use crate::on_threads;

/// Every exchange, on ranks that each send their own number.
fn exchanges(collective: &mut dyn Collective) {
    let (rank, size) = (collective.rank() as u8, collective.size() as u8);
    let mut data = [rank, 100 + rank];
    collective.broadcast(usize::from(size) - 1, &mut data).unwrap();
    assert_eq!(data, [size - 1, 99 + size]);

    let send: Vec<u8> = (0..size).map(|to| 10 * rank + to).collect();
    let mut receive = vec![0; send.len()];
    collective.all_to_all(&send, &mut receive).unwrap();
    assert_eq!(receive, (0..size).map(|from| 10 * from + rank).collect::<Vec<_>>());

    collective.all_gather(&[rank], &mut receive).unwrap();
    assert_eq!(receive, (0..size).collect::<Vec<_>>());
    collective.barrier().unwrap();

    let texts = gather(collective, &vec![rank; usize::from(rank)]).unwrap();
    assert_eq!(texts, (0..size).map(|from| vec![from; usize::from(from)]).collect::<Vec<_>>());
}

#[test]
fn exchanges_are_the_same_for_every_engine() {
    exchanges(&mut Alone);
    for size in [1, 2, 3, 5] {
        on_threads(size, |mut rank| (0..50).for_each(|_| exchanges(&mut rank)));
    }
}

#[test]
fn a_value_that_differs_is_reported_on_every_rank() {
    assert_eq!(agree(&mut Alone, "seed", "1"), Ok(()));
    let results = on_threads(3, |mut rank| {
        agree(&mut rank, "version", "1").unwrap();
        let seed = if rank.rank() == 2 { "8" } else { "7" };
        agree(&mut rank, "seed", seed)
    });
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "seed is `8` on rank 2 and `7` on rank 0; start all ranks alike"
        );
        assert!(matches!(error, CollectiveError::Disagreement { rank: 2, .. }));
    }
}

#[test]
fn a_share_follows_the_rank() {
    assert_eq!(Share::of(&Alone).range(7), 0..7);
    let shares = on_threads(2, |rank| Share::of(&rank).range(7));
    assert_eq!(shares, [0..4, 4..7]);
}
