//! Generated sets: it is known which pathway shows the class.

use std::collections::BTreeMap;

use updraft_data::{
    CellsConfig, Cue, Delimiter, Formula, GeneratedConfig, GeneratedImages, ImageSource, Loader,
    Pixels, StreamConfig, Table, TableSchema, TargetBatch, Volume, draw_cells, formula_samples,
    interaction_csv, label_csv,
};

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

#[test]
fn cells_are_bright_where_their_classes_say() {
    for sides in [vec![96, 96], vec![12, 80, 96]] {
        let config = CellsConfig { sides: sides.clone(), seed: 5 };
        let cells = draw_cells(&config, 1).unwrap();
        let frame = |volume: &Volume| volume.frames()[0].clone();
        let [light, color, classes, cells] =
            [&cells.transmitted, &cells.fluorescence, &cells.classes, &cells.instances].map(frame);
        let (Pixels::U16(light), Pixels::U16(color)) = (light.pixels(), color.pixels()) else {
            panic!("no u16")
        };
        let (Pixels::U8(classes), Pixels::U16(cells)) = (classes.pixels(), cells.pixels()) else {
            panic!("no labels")
        };
        let mean = |values: &dyn Fn(usize) -> u16, class: u8| {
            let places = (0..classes.len()).filter(|&at| classes[at] == class);
            let places: Vec<usize> = places.collect();
            assert!(places.len() * 500 > classes.len(), "{} of class {class}", places.len());
            places.iter().map(|&at| f64::from(values(at))).sum::<f64>() / places.len() as f64
        };
        let (body, nucleus) = (|at: usize| color[2 * at], |at: usize| color[2 * at + 1]);
        assert!(mean(&body, 1) > mean(&body, 0) + 80.0);
        assert!(mean(&nucleus, 2) > mean(&nucleus, 1) + 50.0);
        assert!(mean(&nucleus, 1) > mean(&nucleus, 0));
        // Light is bent by bodies, and more by nuclei.
        let light = |at: usize| light[at];
        assert!(mean(&light, 1) > mean(&light, 0) + 20.0);
        assert!(mean(&light, 2) > mean(&light, 1) + 20.0);
        assert!(cells.iter().zip(&**classes).all(|(&cell, &class)| (cell > 0) == (class > 0)));
        assert!(cells.iter().max() > Some(&3), "{:?}", cells.iter().max());
        assert_eq!(sides.iter().product::<usize>(), classes.len());
    }
    let refused = |sides: &[usize]| draw_cells(&CellsConfig { sides: sides.to_vec(), seed: 0 }, 0);
    assert!(
        refused(&[7, 64]).is_err() && refused(&[64]).is_err() && refused(&[0, 64, 64]).is_err()
    );
}

#[test]
fn formulae_are_as_published_and_noise_has_its_size() {
    let x = [0.5, 1.0, 1.0, 0.25, 0.2];
    // 10 sin(π/2) + 20 · 0.25 + 2.5 + 1.
    assert!((Formula::Friedman1.value(&x) - 18.5).abs() < 1e-12);
    assert!((Formula::ExpSinSquare.value(&[0.5, 1.0]) - 2.0_f64.exp()).abs() < 1e-12);
    assert!((Formula::Product.value(&[0.5, -0.5]) + 0.25).abs() < 1e-12);
    for formula in [Formula::Friedman1, Formula::ExpSinSquare, Formula::Product] {
        let mut squares = 0.0;
        let set = formula_samples(formula, 2000, 0.5, 3).unwrap();
        let loader = Loader::collating(set, StreamConfig::new(2000)).unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        let TargetBatch::Values { values, .. } = batch.targets() else { panic!() };
        for (x, &y) in batch.values().chunks(formula.inputs()).zip(values) {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            squares += (f64::from(y) - formula.value(&x)).powi(2);
        }
        // Four standard errors of 2000 squares are 0.03.
        assert!((squares / 2000.0 - 0.25).abs() < 0.03, "{formula:?}: {}", squares / 2000.0);
    }
    assert!(formula_samples(Formula::Product, 1, f32::NAN, 0).is_err());
    assert!(formula_samples(Formula::Product, 0, 0.0, 0).is_err());
}

#[test]
fn the_effect_follows_from_the_pair_and_hardly_from_either_column() {
    let schema = TableSchema::new().category("drug").category("variant").category("effect");
    let text = interaction_csv(4000, 5);
    let table = Table::parse(text.as_bytes(), "generated", Delimiter::Comma, schema).unwrap();
    /// How often the most frequent effect of each group is right.
    fn accuracy(groups: &[String], effects: &[String]) -> f64 {
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (group, effect) in groups.iter().zip(effects) {
            *counts.entry(group).or_default().entry(effect).or_default() += 1;
        }
        let right: usize = counts.values().map(|effects| effects.values().max().unwrap()).sum();
        right as f64 / groups.len() as f64
    }
    let column = |name| -> Vec<String> {
        (0..4000).map(|row| table.word(name, row).unwrap().unwrap().to_owned()).collect()
    };
    let (drugs, variants, effects) = (column("drug"), column("variant"), column("effect"));
    let pairs: Vec<String> = drugs.iter().zip(&variants).map(|(a, b)| format!("{a}{b}")).collect();
    assert!(accuracy(&pairs, &effects) > 0.94);
    assert!(accuracy(&drugs, &effects) < 0.6);
    assert!(accuracy(&variants, &effects) < 0.6);
}

/// The rows of a generated table of labels: numbers in thousandths, the site, and which labels a row
/// has.
fn labeled(rows: usize, seed: u64, noise: f64) -> Vec<([i32; 6], String, [bool; 7])> {
    const LABELS: [&str; 7] = ["sum", "shifted", "product", "ring", "rare", "either", "both"];
    let schema = (1..=6).fold(TableSchema::new(), |schema, at| schema.number(format!("x{at}")));
    let schema = schema.category("site").multi_label("labels", '|');
    let text = label_csv(rows, seed, noise);
    let table = Table::parse(text.as_bytes(), "generated", Delimiter::Comma, schema).unwrap();
    let of_row = |row| {
        let number = |at: usize| table.number(&format!("x{}", at + 1), row).unwrap().unwrap();
        let labels = table.labels("labels", row).unwrap();
        assert!(labels.iter().all(|label| LABELS.contains(label)), "{labels:?}");
        (
            std::array::from_fn(|at| (number(at) * 1000.0).round() as i32),
            table.word("site", row).unwrap().unwrap().to_owned(),
            LABELS.map(|label| labels.contains(&label)),
        )
    };
    (0..rows).map(of_row).collect()
}

#[test]
fn labels_follow_from_their_rules_and_are_wrong_as_often_as_asked() {
    let rules = |[x1, x2, x3, x4, x5, x6]: [i32; 6], site: &str| {
        let least = match site {
            "north" => -600,
            "east" => -200,
            "south" => 200,
            _ => 600,
        };
        [x1 + x2 > 0, x3 > least, x1 * x3 > 0, x4.abs() > 600, x5 + x6 > 1200]
    };
    let (clean, noisy) = (labeled(4000, 3, 0.0), labeled(4000, 3, 0.1));
    let mut wrong = [0; 5];
    for ((numbers, site, exact), (same, _, labels)) in clean.iter().zip(&noisy) {
        assert_eq!(numbers, same);
        let expected = rules(*numbers, site);
        assert_eq!(expected, exact[..5]);
        for [sum, shifted, product, ring, _, either, both] in [exact, labels] {
            assert_eq!((*either, *both), (*sum || *shifted, *product && *ring));
        }
        for at in 0..5 {
            wrong[at] += usize::from(labels[at] != expected[at]);
        }
    }
    // Four standard errors of 4000 draws are 0.019.
    for (at, wrong) in wrong.into_iter().enumerate() {
        assert!((wrong as f64 / 4000.0 - 0.1).abs() < 0.019, "rule {at}: {wrong}");
    }
    let share = |at: usize| clean.iter().filter(|row| row.2[at]).count() as f64 / 4000.0;
    // Four standard errors are at most 0.032.
    for (at, expected) in [0.5, 0.5, 0.5, 0.4, 0.08, 0.75, 0.2].into_iter().enumerate() {
        assert!((share(at) - expected).abs() < 0.032, "label {at}: {}", share(at));
    }
    assert_eq!(label_csv(50, 3, 0.1), label_csv(80, 3, 0.1)[..label_csv(50, 3, 0.1).len()]);
    assert_ne!(label_csv(50, 3, 0.1), label_csv(50, 4, 0.1));
}
