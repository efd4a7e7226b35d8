//! Mirroring windows along some of their axes.

/// Mirrors each volume of `[volumes, …sides]` along the axes that are set.
pub(super) fn mirror(values: &mut [f32], sides: [usize; 3], axes: [bool; 3]) {
    let [_, rows, columns] = sides;
    if axes[2] {
        values.chunks_exact_mut(columns).for_each(<[f32]>::reverse);
    }
    if axes[1] {
        values.chunks_exact_mut(rows * columns).for_each(|plane| reverse(plane, columns));
    }
    if axes[0] {
        let volume = sides.iter().product();
        values.chunks_exact_mut(volume).for_each(|volume| reverse(volume, rows * columns));
    }
}

/// Reverses the order of pieces of a given length.
fn reverse(values: &mut [f32], length: usize) {
    let count = values.len() / length;
    for at in 0..count / 2 {
        let (front, back) = values.split_at_mut((count - 1 - at) * length);
        front[at * length..][..length].swap_with_slice(&mut back[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_axis_is_mirrored_by_itself() {
        let mirrored = |axes| {
            let mut values: Vec<f32> = (0..12_u8).map(f32::from).collect();
            mirror(&mut values, [3, 2, 2], axes);
            values.into_iter().map(|value| value as u8).collect::<Vec<_>>()
        };
        assert_eq!(mirrored([true, false, false]), [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]);
        assert_eq!(mirrored([false, true, false]), [2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9]);
        assert_eq!(mirrored([false, false, true]), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10]);
        assert_eq!(mirrored([true; 3]), [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    }
}
