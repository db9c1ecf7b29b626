//! Pictures as arrays: PNG, JPEG and Radiance HDR, and OpenEXR with the feature `exr`.
//!
//! An array has the shape `[height, width]` or `[height, width, channels]`. The numbers of formats with 8 or 16 bits
//! are from 0 to 1, as they are in the file (no gamma is removed); those of HDR and EXR are the file's.

use std::io::Cursor;
use std::path::Path;

use image::{DynamicImage, ImageBuffer, ImageError, ImageFormat, ImageReader, Luma, LumaA, Rgb, Rgba};
use ir::Scalar;

use crate::error::Error;
use crate::files;
use crate::npy::Array;

/// The most pixels of a picture.
const MOST_PIXELS: u64 = 1 << 28;

/// Half the bytes that a pixel takes while it is read: four channels as floats of the file, as floats of ours, and as
/// numbers of an array.
const PER_PIXEL: usize = 32;

/// The format of a picture by the ending of its path; `None` if that is no picture's.
fn format(path: &Path) -> Option<ImageFormat> {
    match ending(path).as_str() {
        "png" => Some(ImageFormat::Png),
        "jpg" | "jpeg" => Some(ImageFormat::Jpeg),
        "hdr" => Some(ImageFormat::Hdr),
        "exr" => Some(ImageFormat::OpenExr),
        _ => None,
    }
}

fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// Returns true if the path has the ending of a picture.
pub fn is_picture(path: &Path) -> bool {
    format(path).is_some()
}

/// The format, if this build has it.
fn built_in(path: &Path) -> Result<ImageFormat, String> {
    match format(path) {
        Some(ImageFormat::OpenExr) if !cfg!(feature = "exr") => {
            Err("OpenEXR needs a build with the feature `exr`".into())
        }
        Some(format) => Ok(format),
        None => Err("it ends in none of .png, .jpg, .jpeg, .hdr and .exr".into()),
    }
}

/// Reads a picture as floats: the channels are those of the file.
pub fn read(path: &Path) -> Result<Array, Error> {
    let format = built_in(path).map_err(|why| Error::read(path, why))?;
    let bytes = files::read(path, files::DATA)?;
    let mut reader = ImageReader::with_format(Cursor::new(&bytes), format);
    let size = ImageReader::with_format(Cursor::new(&bytes), format).into_dimensions();
    let (width, height) = size.map_err(|e| undecoded(path, e))?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MOST_PIXELS {
        return Err(Error::read(path, format!("a picture has at most {MOST_PIXELS} pixels")));
    }
    files::check_room(pixels as usize * PER_PIXEL).map_err(|why| Error::read(path, why))?;
    if format == ImageFormat::Jpeg && !has_end(&bytes) {
        return Err(Error::read(path, "it ends too early"));
    }
    reader.no_limits();
    let picture = reader.decode().map_err(|e| undecoded(path, e))?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let (channels, numbers) = match picture.color().channel_count() {
        1 => (1, picture.into_rgb32f().into_raw().into_iter().step_by(3).collect()),
        2 => (2, gray_with_alpha(picture.into_rgba32f().into_raw())),
        3 => (3, picture.into_rgb32f().into_raw()),
        _ => (4, picture.into_rgba32f().into_raw()),
    };
    let shape = if channels == 1 { vec![height, width] } else { vec![height, width, channels] };
    let bits = numbers.into_iter().map(|x: f32| u64::from(x.to_bits())).collect();
    Ok(Array { scalar: Scalar::F32, shape, bits })
}

/// Returns true if the data of a JPEG file, after its segments, has an end. The decoder fills up what is missing.
fn has_end(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, marker, high, low, ..] = *rest {
        if marker == 0xda {
            return rest.windows(2).any(|two| two == [0xff, 0xd9]);
        }
        // A marker may have any number of bytes of 255 before it.
        let length = if marker == 0xff { 1 } else { 2 + usize::from(u16::from_be_bytes([high, low])) };
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

/// The message that a file cannot be decoded.
fn undecoded(path: &Path, error: ImageError) -> Error {
    let why = match error {
        ImageError::IoError(e) => files::plain(&e),
        ImageError::Decoding(e) => {
            let what = std::error::Error::source(&e).map_or_else(|| e.to_string(), |why| why.to_string());
            let ending = ending(path);
            format!("it is no whole picture in the format .{ending} ({})", what.trim_end_matches('.'))
        }
        other => other.to_string(),
    };
    Error::read(path, why)
}

fn gray_with_alpha(rgba: Vec<f32>) -> Vec<f32> {
    rgba.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[3]]).collect()
}

/// Writes an array of one to four channels as a picture. Formats of 8 bits take numbers from 0 to 1; what is beyond is
/// cut off. JPEG and HDR have no alpha, which is left out.
pub fn write(path: &Path, array: &Array) -> Result<(), Error> {
    let bytes = built_in(path).and_then(|format| to_bytes(format, array));
    files::write(path, &bytes.map_err(|why| Error::write(path, why))?)
}

/// The bytes of a PNG file.
pub fn to_png(array: &Array) -> Result<Vec<u8>, String> {
    to_bytes(ImageFormat::Png, array)
}

fn to_bytes(format: ImageFormat, array: &Array) -> Result<Vec<u8>, String> {
    let mut bytes = Cursor::new(Vec::new());
    to_picture(format, array)?.write_to(&mut bytes, format).map_err(|e| e.to_string())?;
    Ok(bytes.into_inner())
}

fn to_picture(format: ImageFormat, array: &Array) -> Result<DynamicImage, String> {
    let (height, width, channels) = match array.shape[..] {
        [height, width] => (height, width, 1),
        [height, width, channels @ 1..=4] => (height, width, channels),
        _ => {
            return Err(format!(
                "a picture is an array of the shape [height, width] or [height, width, channels] with at most 4 \
                 channels, this one is {:?}",
                array.shape
            ));
        }
    };
    let side = |n: usize| u32::try_from(n).map_err(|_| "the picture is too large".to_string());
    let (w, h) = (side(width)?, side(height)?);
    // Numbers of 8 bits are already a picture's.
    let scale = if array.scalar == Scalar::U8 { 1.0 / 255.0 } else { 1.0 };
    let numbers: Vec<f32> = array.to_f64().into_iter().map(|x| (x * scale) as f32).collect();
    let channel = |pixel: &[f32], k: usize| pixel[k.min(channels - 1)];
    let missing = || "the picture is too large".to_string();
    if matches!(format, ImageFormat::Hdr | ImageFormat::OpenExr) {
        let rgb = |pixel: &[f32]| match channels {
            1 | 2 => [pixel[0]; 3],
            _ => [pixel[0], pixel[1], pixel[2]],
        };
        if format == ImageFormat::OpenExr && channels == 4 {
            return ImageBuffer::<Rgba<f32>, _>::from_raw(w, h, numbers).map(Into::into).ok_or_else(missing);
        }
        let numbers = numbers.chunks_exact(channels).flat_map(rgb).collect();
        return ImageBuffer::<Rgb<f32>, _>::from_raw(w, h, numbers).map(Into::into).ok_or_else(missing);
    }
    let byte = |x: f32| (x.clamp(0.0, 1.0) * 255.0).round() as u8;
    let kept = match (format, channels) {
        (ImageFormat::Jpeg, 2) => 1,
        (ImageFormat::Jpeg, 4) => 3,
        _ => channels,
    };
    let bytes: Vec<u8> = numbers
        .chunks_exact(channels)
        .flat_map(|pixel| (0..kept).map(move |k| byte(channel(pixel, k))))
        .collect();
    let made: Option<DynamicImage> = match kept {
        1 => ImageBuffer::<Luma<u8>, _>::from_raw(w, h, bytes).map(Into::into),
        2 => ImageBuffer::<LumaA<u8>, _>::from_raw(w, h, bytes).map(Into::into),
        3 => ImageBuffer::<Rgb<u8>, _>::from_raw(w, h, bytes).map(Into::into),
        _ => ImageBuffer::<Rgba<u8>, _>::from_raw(w, h, bytes).map(Into::into),
    };
    made.ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], scale: f32) -> Array {
        let n: usize = shape.iter().product();
        let bits = (0..n).map(|k| u64::from((scale * k as f32 / 255.0).to_bits())).collect();
        Array { scalar: Scalar::F32, shape: shape.to_vec(), bits }
    }

    fn through(name: &str, array: &Array) -> Result<Array, Error> {
        let path = std::env::temp_dir().join(format!("pullback-pictures-{}-{name}", std::process::id()));
        let read = write(&path, array).and_then(|()| read(&path));
        let _ = std::fs::remove_file(&path);
        read
    }

    #[test]
    fn pictures_read_back() {
        for shape in [&[3, 2][..], &[3, 2, 2], &[3, 2, 3], &[3, 2, 4]] {
            let array = array(shape, 10.0);
            let read = through("a.png", &array).expect("it is written and read");
            assert_eq!(read, array);
        }
        // What is beyond 0 to 1 is cut off.
        assert_eq!(through("b.png", &array(&[1, 2, 3], -9.0)).expect("it reads").to_f64(), [0.0; 6]);
        let read = through("c.jpg", &array(&[16, 16, 3], 0.0)).expect("it reads");
        assert!(read.shape == [16, 16, 3] && read.to_f64().iter().all(|x| x.abs() < 0.02));
        // Eight bits of mantissa.
        let bright = array(&[4, 4, 3], 1000.0);
        let read = through("d.hdr", &bright).expect("it reads");
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 0.02 * (b.abs() + 8.0);
        assert!(read.to_f64().iter().zip(&bright.to_f64()).all(close), "{read:?}");
        let exr = through("e.exr", &bright);
        match cfg!(feature = "exr") {
            true => assert_eq!(exr.expect("it reads"), bright),
            false => assert!(exr.expect_err("is refused").to_string().contains("the feature `exr`")),
        }
    }

    #[test]
    fn pictures_that_are_cut_off_are_refused() {
        let endings =
            if cfg!(feature = "exr") { &["png", "jpg", "hdr", "exr"][..] } else { &["png", "jpg", "hdr"] };
        for ending in endings {
            let path = std::env::temp_dir().join(format!("pullback-cut-{}.{ending}", std::process::id()));
            write(&path, &array(&[16, 16, 3], 7.0)).expect("it is written");
            let whole = std::fs::read(&path).expect("it reads");
            // The last bytes of a PNG file say nothing but that it ends.
            let most = whole.len() - if *ending == "png" { 13 } else { 1 };
            for n in (0..most).step_by(1 + most / 100).chain([most]) {
                std::fs::write(&path, &whole[..n]).expect("it is written");
                assert!(read(&path).is_err(), "{ending}: {n} of {} bytes", whole.len());
            }
            std::fs::remove_file(&path).expect("it is removed");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for shape in [&[6][..], &[1, 2, 5], &[1, 1, 2, 3]] {
            let why = through("f.png", &array(shape, 1.0)).expect_err("is refused").to_string();
            assert!(why.contains("[height, width]"), "{why}");
        }
        assert!(is_picture(Path::new("A.PNG")) && !is_picture(Path::new("a.npy")));
        let path = std::env::temp_dir().join(format!("pullback-no-picture-{}.png", std::process::id()));
        std::fs::write(&path, b"\x89PNG\r\n\x1a\nnothing").expect("it is written");
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).expect("it is removed");
    }
}
