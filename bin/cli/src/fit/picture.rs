//! Pictures as RGB bytes, to be drawn on and compared.

use std::path::Path;

use driver::npy::Array;
use driver::{Error, pictures};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use ir::Scalar;

/// Eight-bit RGB, row by row from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) rgb: Vec<u8>,
}

impl Picture {
    /// A picture of a single colour.
    pub(crate) fn new(width: usize, height: usize, colour: [u8; 3]) -> Picture {
        Picture { width, height, rgb: colour.repeat(width * height) }
    }

    /// Converts numbers from 0 to 1; a single channel becomes grey.
    pub(crate) fn from_numbers(width: usize, height: usize, numbers: &[f64]) -> Picture {
        let channels = numbers.len() / (width * height).max(1);
        let byte = |x: f64| (x.clamp(0.0, 1.0) * 255.0).round() as u8;
        let rgb = (0..width * height)
            .flat_map(|p| [0, 1, 2].map(|c| byte(numbers[p * channels + c.min(channels - 1)])))
            .collect();
        Picture { width, height, rgb }
    }

    /// Writes a picture in the format that the ending of the path names.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        pictures::write(path, &self.to_array())
    }

    /// The bytes, in the shape `[height, width, 3]`.
    pub(crate) fn to_array(&self) -> Array {
        let bits = self.rgb.iter().map(|&b| u64::from(b)).collect();
        Array { scalar: Scalar::U8, shape: vec![self.height, self.width, 3], bits }
    }

    /// Copies a picture to a place in this one; any part outside is dropped.
    pub(crate) fn paste(&mut self, other: &Picture, x: usize, y: usize) {
        for row in 0..other.height.min(self.height.saturating_sub(y)) {
            let n = other.width.min(self.width.saturating_sub(x)) * 3;
            let (to, from) = (((y + row) * self.width + x) * 3, row * other.width * 3);
            self.rgb[to..to + n].copy_from_slice(&other.rgb[from..from + n]);
        }
    }
}

impl OriginDimensions for Picture {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Picture {
    type Color = Rgb888;
    type Error = std::convert::Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Self::Error> {
        let bounds = self.bounding_box();
        for Pixel(at, colour) in pixels.into_iter().filter(|pixel| bounds.contains(pixel.0)) {
            let at = (at.y as usize * self.width + at.x as usize) * 3;
            self.rgb[at..at + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
        }
        Ok(())
    }
}

/// Two pictures and their difference (amplified four times, around grey) side by side.
pub(crate) fn side_by_side(target: &Picture, fitted: &Picture) -> Picture {
    let (w, h, gap) = (target.width, target.height, 8);
    let mut sheet = Picture::new(3 * w + 2 * gap, h, [255; 3]);
    let difference = Picture {
        width: w,
        height: h,
        rgb: target
            .rgb
            .iter()
            .zip(&fitted.rgb)
            .map(|(&a, &b)| (128 + 4 * (b as i32 - a as i32)).clamp(0, 255) as u8)
            .collect(),
    };
    sheet.paste(target, 0, 0);
    sheet.paste(fitted, w + gap, 0);
    sheet.paste(&difference, 2 * (w + gap), 0);
    sheet
}

/// Peak signal to noise ratio in decibels, of eight-bit values.
pub(crate) fn psnr(target: &Picture, fitted: &Picture) -> f64 {
    let sum: f64 = target.rgb.iter().zip(&fitted.rgb).map(|(&a, &b)| (a as f64 - b as f64).powi(2)).sum();
    let mean = sum / target.rgb.len().max(1) as f64;
    if mean == 0.0 { f64::INFINITY } else { 10.0 * (255.0 * 255.0 / mean).log10() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn png_reads_back() {
        let mut picture = Picture::new(3, 2, [1, 2, 3]);
        let Ok(()) = Pixel(Point::new(1, 1), Rgb888::new(200, 100, 0)).draw(&mut picture);
        let path = std::env::temp_dir().join(format!("pullback-picture-{}.png", std::process::id()));
        picture.write(&path).expect("writes");
        let read = pictures::read(&path).expect("reads");
        let read = Picture::from_numbers(3, 2, &read.to_f64());
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(read, picture);
        assert_eq!(psnr(&picture, &read), f64::INFINITY);
        assert_eq!(side_by_side(&picture, &read).width, 25);
    }
}
