//! Several programs in one memory: a program alone is that of the plain simulator, nothing is granted twice,
//! weights and priorities are kept, debts are paid, and what makes no sense is refused.

mod alone;
mod churn;
mod laws;
mod refused;
mod shared;

#[path = "../threads/programs.rs"]
mod programs;
