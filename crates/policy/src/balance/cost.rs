//! The cost of a refault of either kind. The kernel counts how long programs waited for blocks, but
//! not for which kind of page. Where the mix of both kinds varies, the waits tell them apart; where
//! it does not, the read times of the devices behind them do.

/// Mean time that a program waits for one refaulted page, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A page of a file.
    pub file: f64,
    /// Anonymous memory.
    pub anon: f64,
}

impl Costs {
    /// Nothing is known: both kinds cost the same, as a read of a solid-state disk does.
    pub const UNKNOWN: Costs = Costs {
        file: 100e-6,
        anon: 100e-6,
    };

    /// The swappiness that these costs alone call for: 200 x file / (file + anon) (kernel document
    /// `sysctl/vm.rst`), within the bounds of trials.
    #[must_use]
    pub fn swappiness(&self) -> u32 {
        let Costs { file, anon } = self.sound();
        let value = f64::from(super::MOST) * file / (file + anon);
        (value.round() as u32).clamp(super::LEAST, super::MOST)
    }

    /// These, or possible ones in the place of impossible ones.
    pub(super) fn sound(&self) -> Costs {
        let sound = |cost: f64, instead: f64| {
            if cost.is_finite() && cost > 0.0 {
                cost.clamp(1e-9, 10.0)
            } else {
                instead
            }
        };
        Costs {
            file: sound(self.file, Costs::UNKNOWN.file),
            anon: sound(self.anon, Costs::UNKNOWN.anon),
        }
    }
}

/// The weight of the past after one more period.
const MEMORY: f64 = 0.97;
/// Weight of the devices' ratio against what was observed, as a part of the latter.
const TRUST: f64 = 0.02;
/// An estimate stays within this factor of what the devices say: programs also wait for reads that
/// are no refaults.
const FARTHEST: f64 = 16.0;

/// Splits waiting times between two kinds of refaults: least squares with forgetting, drawn towards
/// the ratio of the devices. Sums of products of pages and seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostEstimate {
    file_file: f64,
    file_anon: f64,
    anon_anon: f64,
    file_waited: f64,
    anon_waited: f64,
}

impl CostEstimate {
    /// Notes a period: pages of either kind that were read again, and seconds waited for blocks.
    pub fn note(&mut self, file: u64, anon: u64, waited: f64) {
        if !(waited.is_finite() && waited >= 0.0) || (file == 0 && anon == 0) {
            return;
        }
        let (file, anon) = (file as f64, anon as f64);
        // Each period counts the same, however many pages came back in it.
        let weight = 1.0 / (file + anon).powi(2);
        let add = |sum: &mut f64, product: f64| *sum = *sum * MEMORY + product * weight;
        add(&mut self.file_file, file * file);
        add(&mut self.file_anon, file * anon);
        add(&mut self.anon_anon, anon * anon);
        add(&mut self.file_waited, file * waited);
        add(&mut self.anon_waited, anon * waited);
    }

    /// The costs, given those that follow from the read times of the devices.
    #[must_use]
    pub fn costs(&self, devices: &Costs) -> Costs {
        let devices = devices.sound();
        let Some(scaled) = self.scaled(&devices) else {
            return devices;
        };
        let pull = TRUST * (self.file_file + self.anon_anon);
        let (ff, aa, fa) = (self.file_file + pull, self.anon_anon + pull, self.file_anon);
        let file_side = self.file_waited + pull * scaled.file;
        let anon_side = self.anon_waited + pull * scaled.anon;
        // Positive: the pull makes the matrix positive definite.
        let determinant = ff * aa - fa * fa;
        let near = |cost: f64, device: f64| {
            if cost.is_finite() {
                cost.clamp(device / FARTHEST, device * FARTHEST)
            } else {
                device
            }
        };
        Costs {
            file: near(
                (aa * file_side - fa * anon_side) / determinant,
                devices.file,
            ),
            anon: near(
                (ff * anon_side - fa * file_side) / determinant,
                devices.anon,
            ),
        }
    }

    /// The devices' costs times the factor that explains the waits best.
    fn scaled(&self, devices: &Costs) -> Option<Costs> {
        let Costs { file, anon } = *devices;
        let explained = file * file * self.file_file
            + 2.0 * file * anon * self.file_anon
            + anon * anon * self.anon_anon;
        let factor = (file * self.file_waited + anon * self.anon_waited) / explained;
        (factor.is_finite() && factor > 0.0).then_some(Costs {
            file: file * factor,
            anon: anon * factor,
        })
    }
}
