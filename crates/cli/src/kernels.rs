//! The table of `train --explain-kernels`.

use updraft_run::KernelChoice;

use crate::wrap::hanging;

/// One line per layer, followed by one per pass; passes with the same algorithm share a line.
pub(crate) fn table(choices: &[KernelChoice]) -> Vec<String> {
    let mut lines = Vec::new();
    for layer in choices.chunk_by(|a, b| a.layer == b.layer && a.shape == b.shape) {
        lines.push(heading(&layer[0]));
        for same in layer.chunk_by(|a, b| a.strategy == b.strategy) {
            let passes: Vec<String> = same.iter().map(|choice| choice.pass.to_string()).collect();
            let strategy = same[0].strategy;
            lines.push(format!(
                "  {}: {} ({})",
                passes.join(", "),
                strategy.algorithm,
                strategy.isa
            ));
            lines.push(hanging("    ", strategy.reason));
        }
    }
    lines
}

/// The layer and its convolution, such as `stem.conv  64×3×32×32 to 16 channels, 3×3`.
fn heading(choice: &KernelChoice) -> String {
    let shape = &choice.shape;
    let [inputs, outputs] = shape.channels;
    let [height, width] = shape.input;
    let [rows, columns] = shape.kernel;
    let mut text = format!(
        "{}  {}×{inputs}×{height}×{width} to {outputs} channels, {rows}×{columns}",
        choice.layer, shape.batch
    );
    for (name, numbers, usual) in
        [("stride", shape.stride, [1; 2]), ("dilation", shape.dilation, [1; 2])]
    {
        if numbers != usual {
            text += &format!(", {name} {}×{}", numbers[0], numbers[1]);
        }
    }
    if shape.groups > 1 {
        text += &format!(", {} groups", shape.groups);
    }
    text
}
