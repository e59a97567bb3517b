use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for keys that are random, or counted up by us, or addresses: nobody can choose them to collide.
#[derive(Debug, Default)]
pub struct Mix(u64);

/// Builds [`Mix`] hashers, for maps.
pub type BuildMix = BuildHasherDefault<Mix>;

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }
}
