//! The table of `train --explain-kernels`.

use updraft_run::KernelChoice;

use crate::wrap::hanging;

/// One line per layer, followed by one per pass; passes with the same algorithm share a line.
pub(crate) fn table(choices: &[KernelChoice]) -> Vec<String> {
    let mut lines = Vec::new();
    for layer in choices.chunk_by(|a, b| a.layer == b.layer && a.convolution == b.convolution) {
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
    let convolution = &choice.convolution;
    let [inputs, outputs] = convolution.channels;
    let mut text = format!(
        "{}×{inputs}×{} to {outputs} channels, {}",
        convolution.batch,
        sides(&convolution.input),
        sides(&convolution.kernel)
    );
    if convolution.is_transposed {
        text += " transposed";
    }
    for (name, numbers) in [("stride", &convolution.stride), ("dilation", &convolution.dilation)] {
        if numbers.iter().any(|&number| number != 1) {
            text += &format!(", {name} {}", sides(numbers));
        }
    }
    if convolution.groups > 1 {
        text += &format!(", {} groups", convolution.groups);
    }
    hanging(&format!("{}  ", choice.layer), &text)
}

fn sides(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join("×")
}
