//! What Linux' driver for cards of AMD reports in `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use super::samples::Sample;

/// The folder of the cards.
pub(super) const CARDS: &str = "/sys/class/drm";

const MIB: f64 = 1_048_576.0;

/// The folder of the device of the card that reports how busy it is: the one with the most memory,
/// as processors have small ones.
pub(super) fn device(cards: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(cards).ok()?.flatten();
    let mut devices: Vec<_> = entries.map(|entry| entry.path().join("device")).collect();
    devices.retain(|device| device.join("gpu_busy_percent").is_file());
    devices.sort();
    let memory = |device: &PathBuf| memory_mib(device).unwrap_or_default();
    // Of equal ones the first.
    devices.into_iter().rev().max_by(|one, other| memory(one).total_cmp(&memory(other)))
}

/// The memory of a card in MiB.
pub(super) fn memory_mib(device: &Path) -> Option<f64> {
    Some(number(&device.join("mem_info_vram_total"))? / MIB)
}

/// The values of a card now.
///
/// # Source
/// The Linux kernel's documentation of amdgpu, "GPU Power/Thermal Controls and Monitoring".
pub(super) fn sample(device: &Path) -> Sample {
    let sensors = fs::read_dir(device.join("hwmon")).into_iter().flatten().flatten().next();
    let sensors = sensors.map(|entry| entry.path());
    let sensor = |name: &str| number(&sensors.as_ref()?.join(name));
    [
        sensor("freq1_input").map(|hz| hz / 1e6),
        sensor("freq2_input").map(|hz| hz / 1e6),
        sensor("temp1_input").map(|thousandths| thousandths / 1e3),
        sensor("power1_average").or_else(|| sensor("power1_input")).map(|micro| micro / 1e6),
        number(&device.join("gpu_busy_percent")),
        number(&device.join("mem_info_vram_used")).map(|bytes| bytes / MIB),
    ]
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target;

    #[test]
    fn a_card_is_read_from_the_files_of_its_driver() {
        let cards = target().join("tmp").join("gpu-report-amd");
        let device = cards.join("card1").join("device");
        let sensors = device.join("hwmon").join("hwmon3");
        let _ = fs::remove_dir_all(&cards);
        let of_processor = cards.join("card0").join("device");
        fs::create_dir_all(&sensors).unwrap();
        fs::create_dir_all(&of_processor).unwrap();
        let write = |folder: &Path, name: &str, text: &str| {
            fs::write(folder.join(name), format!("{text}\n")).unwrap();
        };
        write(&device, "gpu_busy_percent", "97");
        write(&device, "mem_info_vram_total", "17163091968");
        write(&device, "mem_info_vram_used", "1073741824");
        write(&of_processor, "gpu_busy_percent", "3");
        write(&of_processor, "mem_info_vram_total", "536870912");
        write(&sensors, "freq1_input", "2450000000");
        write(&sensors, "temp1_input", "61000");
        write(&sensors, "power1_average", "215000000");

        assert_eq!(super::device(&cards), Some(device.clone()));
        assert_eq!(memory_mib(&device), Some(16_368.0));
        let expected = [Some(2450.0), None, Some(61.0), Some(215.0), Some(97.0), Some(1024.0)];
        assert_eq!(sample(&device), expected);
        assert_eq!(super::device(&cards.join("card0")), None);
    }
}
