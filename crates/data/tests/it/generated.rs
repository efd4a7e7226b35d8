//! Generated sets: the truth says which pathway tells the class.

use updraft_data::{Cue, GeneratedConfig, GeneratedImages, ImageSource};

const LUMA: [f64; 3] = [0.2126, 0.7152, 0.0722];

fn set(cue: Cue, seed: u64) -> GeneratedImages {
    GeneratedImages::try_new(GeneratedConfig::new(cue, 400).with_seed(seed)).unwrap()
}

fn pixels(set: &GeneratedImages, index: usize) -> Vec<u8> {
    set.read(index).unwrap().into_pixels()
}

/// The BT.709 brightness of each pixel, on the scale of bytes.
fn luma(pixels: &[u8]) -> Vec<f64> {
    let dot = |pixel: &[u8]| pixel.iter().zip(LUMA).map(|(&v, w)| f64::from(v) * w).sum();
    pixels.chunks(3).map(dot).collect()
}

#[test]
fn an_image_is_a_function_of_seed_and_index() {
    let one = set(Cue::Both, 1);
    assert_eq!(pixels(&one, 9), pixels(&set(Cue::Both, 1), 9));
    assert_ne!(pixels(&one, 9), pixels(&one, 25));
    assert_ne!(pixels(&one, 9), pixels(&set(Cue::Both, 2), 9));
    assert_ne!(one.fingerprint(), set(Cue::Both, 2).fingerprint());
}

#[test]
fn classes_are_balanced_and_named() {
    for (cue, count) in [(Cue::Color, 4), (Cue::Brightness, 4), (Cue::Both, 16)] {
        let set = set(cue, 0);
        assert_eq!(set.classes().len(), count);
        for class in 0..count {
            let members = (0..set.len()).filter(|&index| set.label(index) == class).count();
            assert_eq!(members, 400 / count);
        }
    }
}

/// Brightness histograms of two halves of a set differ no more than chance allows when the class
/// lies in color alone; with the class in brightness, the mean images of two shapes do.
#[test]
fn a_color_cue_leaves_no_trace_in_brightness() {
    let set = set(Cue::Color, 3);
    let mut means = [(0.0, 0.0); 4];
    for index in 0..set.len() {
        let luma = luma(&pixels(&set, index));
        let count = luma.len() as f64;
        let mean = luma.iter().sum::<f64>() / count;
        let spread = luma.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        let class = &mut means[set.label(index)];
        class.0 += mean / 100.0;
        class.1 += spread.sqrt() / 100.0;
    }
    for (mean, spread) in means {
        // An image's mean has a standard deviation of about 11 levels, so a class mean of 1.1;
        // its spread one of about 3, so 0.3: four of each.
        assert!((mean - means[0].0).abs() < 6.3, "{means:?}");
        assert!((spread - means[0].1).abs() < 1.8, "{means:?}");
    }
}

#[test]
fn color_is_drawn_at_unchanged_brightness() {
    // The same seed and index draw the same brightness layer whatever the hue is; so images of
    // the cues `color` and `brightness` with equal shapes agree in brightness pixel by pixel.
    let (color, brightness) = (set(Cue::Color, 5), set(Cue::Brightness, 5));
    let mut agreeing = 0;
    for index in 0..100 {
        let pairs = luma(&pixels(&color, index)).into_iter().zip(luma(&pixels(&brightness, index)));
        // Rounding to bytes moves the brightness by at most half a level.
        agreeing += usize::from(pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1.0 + 1e-9));
    }
    // The color set draws its shape at random: equal to the other's for one image in four.
    assert!((10..=45).contains(&agreeing), "{agreeing}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |config| GeneratedImages::try_new(config).unwrap_err().to_string();
    assert_eq!(
        refused(GeneratedConfig::new(Cue::Both, 15)),
        "`images` is 15; expected at least one per class, 16"
    );
    assert_eq!(
        refused(GeneratedConfig::new(Cue::Both, 16).with_size(15, 32)),
        "`height` is 15; expected 16 to 1024"
    );
}
