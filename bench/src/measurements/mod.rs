//! The measurements, one file or folder each, and the list of them.

mod agent_cost;
mod broker_cost;
mod cache;
mod clients;
mod container;
mod demo;
mod hog;
mod hotspot;
mod isla_vista;
mod isla_vista_model;
mod libgc;
mod libgc_adaptive;
mod map_areas;
mod map_cost;
mod mmtk;
mod ordinary_user;
mod phases_live;
mod pin;
mod shares;
mod sharing;
mod sim_speed;
mod sim_tables;
mod split;
mod stall_signal;
mod together_model;
mod trace_cost;

use crate::measurement::Measurement;

/// All measurements, in the order of the docs. The command line with its help, `make bench-NAME` and
/// the book's list come from here.
pub const ALL: &[&dyn Measurement] = &[
    &demo::Demo,
    &shares::Shares,
    &hog::Hog,
    &split::Split,
    &split::real_shortage::SplitWant,
    &container::Container,
    &broker_cost::BrokerCost,
    &ordinary_user::OrdinaryUser,
    &map_cost::MapCost,
    &map_areas::MapAreas,
    &stall_signal::StallSignal,
    &agent_cost::AgentCost,
    &libgc_adaptive::LibgcAdaptive,
    &cache::Cache,
    &clients::Clients,
    &libgc::plain::Plain,
    &libgc::strangers::Strangers,
    &libgc::pressure::LibgcPressure,
    &libgc::ablation::Ablation,
    &libgc::kernels::Kernels,
    &sharing::Sharing,
    &hotspot::Hotspot,
    &mmtk::Mmtk,
    &isla_vista::IslaVista,
    &isla_vista::sweep::Sweep,
    &isla_vista::dynamic::Dynamic,
    &isla_vista_model::IslaVistaModel,
    &sim_tables::SimTables,
    &together_model::TogetherModel,
    &pin::Pin,
    &phases_live::PhasesLive,
    &sim_speed::SimSpeed,
    &trace_cost::TraceCost,
];

/// The measurement of this name.
pub fn named(name: &str) -> Option<&'static dyn Measurement> {
    ALL.iter().copied().find(|one| one.about().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_questions_are_sentences() {
        for one in ALL {
            let about = one.about();
            let fits = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(about.name.chars().all(fits), "{about:?}");
            assert!(about.minutes > 0, "{about:?}");
            let first = named(about.name).map(|one| one.about().question);
            assert_eq!(first, Some(about.question), "two have this name");
            assert!(about.question.starts_with(char::is_uppercase), "{about:?}");
        }
        assert!(named("nothing").is_none());
    }
}
