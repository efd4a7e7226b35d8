//! burn's attention as two products of matrices with a softmax between them.

use burn::backend::ir::AttentionOpIr;

use super::reader::{Meaning, Read, Reader};

impl Reader<'_> {
    /// `softmax(scale·q·kᵀ)·v` of `[batch, heads, tokens, features]`.
    pub(crate) fn attention(&mut self, attention: &AttentionOpIr) -> Read<Meaning> {
        let options = &attention.options;
        let is_masked =
            attention.mask.is_some() || attention.attn_bias.is_some() || options.is_causal;
        if is_masked || options.softcap.is_some() {
            return Err(self.unsupported("it has a mask, a bias or a bound of its scores"));
        }
        let (q, q_transposed) = self.matrices(&attention.query)?;
        let (k, k_transposed) = self.matrices(&attention.key)?;
        let name = self.numbered("product");
        let scores = self.graph.matrix_product(&name, q, k, [q_transposed, !k_transposed]);
        let scores = self.added(scores)?;
        let features = *attention.query.shape.last().expect("four axes");
        let scale = options.scale.map(|scale| scale.elem::<f32>());
        let scale = scale.unwrap_or(1.0 / (features as f32).sqrt());
        let heads = self.graph.shape(scores)[0];
        let (factors, zeros) = (vec![scale; heads], vec![0.0; heads]);
        let name = self.numbered("scale");
        let scores = self.graph.affine(&name, scores, &factors, &zeros);
        let scores = self.added(scores)?;
        let last = self.graph.shape(scores).len() - 1;
        let name = self.numbered("softmax");
        let shares = self.graph.softmax(&name, scores, last);
        let shares = self.added(shares)?;
        let (v, v_transposed) = self.matrices(&attention.value)?;
        let name = self.numbered("product");
        let y = self.graph.matrix_product(&name, shares, v, [false, v_transposed]);
        self.layer(y)
    }
}
