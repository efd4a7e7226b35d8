//! A program whose memory is the allocator's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use updraft_allocator::ReuseBlocks;

#[global_allocator]
static MEMORY: ReuseBlocks = ReuseBlocks::new();

/// Large enough to be kept.
const LARGE: usize = 1 << 20;

/// Lets one test at a time look at what is kept, from nothing on.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    MEMORY.release();
    alone
}

#[test]
fn a_freed_block_is_the_next_one_of_its_size() {
    let _alone = alone();
    let [first, other] = [LARGE, 2 * LARGE].map(|bytes| vec![1_u8; bytes]);
    let start = first.as_ptr();
    drop(first);
    drop(other);
    let other = vec![2_u8; 2 * LARGE];
    assert_ne!(other.as_ptr(), start);
    let again = vec![3_u8; LARGE - 100];
    assert_eq!(again.as_ptr(), start, "the same number of pages");
}

#[test]
fn released_blocks_go_back_to_the_system() {
    let _alone = alone();
    drop(vec![1_u8; LARGE]);
    assert!(MEMORY.kept_bytes() >= LARGE);
    MEMORY.release();
    assert!(MEMORY.kept_bytes() < LARGE);
}

/// Large blocks after others of other sizes: their memory is moved into one block.
#[test]
fn memory_that_is_in_pieces_becomes_one_block() {
    let _alone = alone();
    let many: Vec<Vec<u8>> = (0..40_u8).map(|fill| vec![fill; LARGE + 5_000]).collect();
    let (kept, freed): (Vec<_>, Vec<_>) = many.into_iter().partition(|block| block[0] % 2 == 0);
    drop(freed);
    for round in 0..3_u8 {
        let zeros = vec![0_u8; 7 * LARGE];
        let filled = vec![round; 11 * LARGE];
        assert!(zeros.iter().all(|&byte| byte == 0));
        assert!(filled.iter().all(|&byte| byte == round));
        drop(zeros);
        assert!(vec![0_u8; 3 * LARGE].iter().all(|&byte| byte == 0));
    }
    for block in &kept {
        assert!(block.iter().all(|byte| *byte == block[0]), "another block wrote here");
    }
}

/// Its text needs memory of the allocator itself.
#[test]
fn it_can_be_printed() {
    let _alone = alone();
    drop(vec![1_u8; LARGE]);
    let text = format!("{:#?} {}", MEMORY, "x".repeat(2 * LARGE));
    assert!(text.starts_with("ReuseBlocks {"));
}

/// A request that the system refuses does not raise what is kept later.
#[test]
fn a_request_that_fails_changes_nothing() {
    let _alone = alone();
    assert!(Vec::<u8>::new().try_reserve_exact(1 << 50).is_err());
    let most = 64 * LARGE;
    drop(vec![1_u8; most]);
    drop(vec![1_u8; most + LARGE]);
    assert!(MEMORY.kept_bytes() < 2 * most, "{}", MEMORY.kept_bytes());
}

#[test]
fn memory_that_has_to_be_zero_is_zero() {
    let _alone = alone();
    let first = vec![7_u8; LARGE];
    let start = first.as_ptr();
    drop(first);
    let zeros = vec![0_u8; LARGE];
    assert_eq!(zeros.as_ptr(), start);
    assert!(zeros.iter().all(|&byte| byte == 0));
}

#[test]
fn vectors_keep_their_numbers_when_they_grow_and_shrink_over_the_limit_of_large_blocks() {
    let _alone = alone();
    let mut numbers = Vec::new();
    for number in 0..500_000_u32 {
        numbers.push(number);
    }
    for len in [400_000, 399_999, 20_000, 3_000, 5] {
        numbers.truncate(len);
        numbers.shrink_to_fit();
        assert!(numbers.iter().copied().eq(0..len as u32), "{len}");
    }
    numbers.extend(5..400_000);
    assert!(numbers.iter().copied().eq(0..400_000));
}

#[test]
fn alignment_is_kept() {
    #[repr(align(4096))]
    #[derive(Clone)]
    struct Page([u8; 4096]);

    let _alone = alone();
    for pages in [1, 20, 20, 300, 20] {
        let pages = vec![Page([5; 4096]); pages];
        assert_eq!(pages.as_ptr().addr() % 4096, 0);
        assert!(pages.iter().all(|page| page.0.iter().all(|&byte| byte == 5)));
    }
}

#[test]
fn threads_never_share_a_block() {
    let _alone = alone();
    let work = |thread: u64| {
        let mut state = thread + 1;
        let mut held: Vec<Vec<u64>> = Vec::new();
        for round in 0..2_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = 6_000 + (state >> 33) as usize % 8 * 2_000;
            held.push(vec![thread << 32 | round; len]);
            if held.len() > 6 {
                let gone = held.swap_remove((state >> 40) as usize % held.len());
                let mark = gone[0];
                assert_eq!(mark >> 32, thread);
                assert!(gone.iter().all(|&number| number == mark), "another wrote here");
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || work(thread));
        }
    });
}
