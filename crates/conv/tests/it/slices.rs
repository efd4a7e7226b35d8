//! The kernels without burn.

use updraft_conv::slices::{ConvGeometry, ConvShape, Isa, Scratch, forward};

#[test]
fn a_box_blur_by_hand() -> Result<(), Box<dyn std::error::Error>> {
    let shape = ConvShape { padding: [0, 1], ..ConvShape::new(1, [1, 1], [1, 4], [1, 3]) };
    let geometry = ConvGeometry::try_new(shape)?;
    let mut y = [0.0; 4];
    let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0; 3]);
    forward(Isa::detect(), &geometry, &x, &w, Some(&[0.5]), &mut y, &mut Scratch::new(), 1);
    assert_eq!(y, [3.5, 6.5, 9.5, 7.5]);
    Ok(())
}
