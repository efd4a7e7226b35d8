//! Configurations: each is told of in their index.

use crate::tidy::Fault;
use crate::tidy::house::House;

const INDEX: &str = "configs/README.md";

pub(super) fn faults(house: &House) -> Vec<Fault> {
    let index = house.files.iter().find(|(path, _)| path == INDEX).map_or("", |(_, text)| text);
    let is_config = |path: &&str| path.starts_with("configs/");
    let configs = house.with_ending(".toml").map(|(path, _)| path).filter(is_config);
    configs
        .filter(|path| !index.contains(path.trim_start_matches("configs/")))
        .map(|path| Fault::new(path, format!("is not mentioned in {INDEX}")))
        .collect()
}
