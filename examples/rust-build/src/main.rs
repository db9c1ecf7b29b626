//! The sensitivity of a spring's place to its stiffness, and the energy of many springs, by what `build.rs` has compiled.
//!
//!     PULLBACK=../../target/release/pullback cargo run

include!(concat!(env!("OUT_DIR"), "/spring.rs"));

use spring::Buffers;

fn main() -> Result<(), spring::Error> {
    let slopes = spring::spring_bwd(3.0, 0.2, 2.0, 1.0)?;
    let place = |stiffness| spring::spring(stiffness, 0.2, 2.0);
    let step = 1e-5;
    let difference = (place(3.0 + step)? - place(3.0 - step)?) / (2.0 * step);
    let (by_stiffness, by_damping) = (slopes.stiffness_d, slopes.damping_d);
    println!("by stiffness {by_stiffness:.6} (differences {difference:.6}), by damping {by_damping:.6}");
    assert!((by_stiffness - difference).abs() < 1e-6);

    // Two numbers for each spring: its place and its speed.
    let states: Vec<f32> = (0..100).flat_map(|k| [(0.1 * k as f32).cos(), (0.1 * k as f32).sin()]).collect();
    let mut energies = vec![0.0; 100];
    spring::energy(&mut Buffers { states: &states, energies: &mut energies }, [2, 1, 1])?;
    println!("energy {:.3}", energies[99]);
    assert!((energies[99] - 0.5).abs() < 1e-6);

    // A length that does not fit is an error.
    let odd = spring::energy(&mut Buffers { states: &states[1..], energies: &mut energies }, [2, 1, 1]);
    println!("{}", odd.unwrap_err());
    Ok(())
}
