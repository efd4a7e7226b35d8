//! Buffers that a thread reuses from image to image: allocating them again takes a third of the
//! time of decoding a photograph.

use std::cell::{Cell, RefCell};

use fast_image_resize::Resizer;

/// The largest buffer of each kind that a thread keeps; larger ones are freed.
const MOST_BYTES: usize = 16 << 20;

thread_local! {
    static PIXELS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static RESIZER: RefCell<Resizer> = RefCell::default();
}

/// That many zeros.
pub(crate) fn zeros(bytes: usize) -> Vec<u8> {
    let mut pixels = taken(bytes);
    pixels.clear();
    pixels.resize(bytes, 0);
    pixels
}

/// A buffer of this many bytes with any values, for callers that overwrite all of them.
#[cfg(feature = "turbojpeg")]
pub(crate) fn any(bytes: usize) -> Vec<u8> {
    let mut pixels = taken(bytes);
    pixels.resize(bytes, 0);
    pixels
}

/// The thread's buffer, unless it is much larger than the image needs.
fn taken(bytes: usize) -> Vec<u8> {
    let pixels = PIXELS.take();
    if pixels.capacity() / 2 > bytes {
        PIXELS.set(pixels);
        return Vec::new();
    }
    pixels
}

/// Keeps the buffer of pixels that are no longer used.
pub(crate) fn keep(pixels: Vec<u8>) {
    if pixels.capacity() <= MOST_BYTES {
        PIXELS.set(pixels);
    }
}

/// The thread's resizer.
pub(crate) fn with_resizer<T>(work: impl FnOnce(&mut Resizer) -> T) -> T {
    RESIZER.with_borrow_mut(|resizer| {
        let result = work(resizer);
        if resizer.size_of_internal_buffers() > MOST_BYTES {
            resizer.reset_internal_buffers();
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_memory_comes_back_empty_of_what_it_held() {
        let pixels = vec![7; 1000];
        let place = pixels.as_ptr();
        keep(pixels);
        let zeros = zeros(900);
        assert_eq!(zeros.as_ptr(), place);
        assert!(zeros.len() == 900 && zeros.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_small_image_takes_no_large_memory() {
        keep(vec![7; 1000]);
        assert!(zeros(100).capacity() < 1000);
        assert!(zeros(600).capacity() >= 1000, "what was kept is still there");
    }

    #[test]
    fn a_huge_image_leaves_nothing_behind() {
        keep(vec![0; MOST_BYTES + 1]);
        assert!(PIXELS.take().capacity() <= MOST_BYTES);
    }
}
