//! The disk under a SQLite file: what it may be, a reserve for when it is full,
//! and whether the file is still there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate, statfs, statvfs};

use crate::store::StoreError;

/// Bytes that are set aside. Decisions and the audit rows about them take a few
/// hundred bytes each, so this is room for tens of thousands.
const RESERVE: u64 = 64 * 1024 * 1024;

/// Refuses file systems of another machine: their locks and shared memory are
/// not what SQLite's log needs, and a database there gets damaged.
///
/// # Errors
///
/// [`StoreError::Unusable`] in words for the operator.
pub(super) fn check_kind(database: &Path) -> Result<(), StoreError> {
    let dir = directory(database);
    // What can't be asked is not refused: opening the file says more.
    let Ok(found) = statfs(dir) else { return Ok(()) };
    // 32 bits in a type that differs between C libraries.
    let kind = u32::try_from(found.f_type & 0xffff_ffff).unwrap_or(0);
    match network_name(kind) {
        Some(name) => Err(StoreError::Unusable(format!(
            "{} is on a network file system ({name}), where SQLite loses data; use a local disk, \
             or PostgreSQL",
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// The magic numbers of `statfs(2)`.
fn network_name(kind: u32) -> Option<&'static str> {
    match kind {
        0x0000_6969 => Some("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        _ => None,
    }
}

fn directory(database: &Path) -> &Path {
    database.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) struct Disk {
    database: PathBuf,
    reserve: PathBuf,
    identity: (u64, u64),
    is_full: AtomicBool,
    is_warned: AtomicBool,
}

impl Disk {
    /// The disk under a database that exists.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unusable`] when it can't be looked at.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let identity = identity(database)
            .map_err(|error| StoreError::Unusable(format!("{}: {error}", database.display())))?;
        Ok(Self {
            database: database.to_owned(),
            reserve: database.with_extension("reserve"),
            identity,
            is_full: AtomicBool::new(false),
            is_warned: AtomicBool::new(false),
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    /// Whether the database is still the file that was opened.
    pub(super) fn is_same_file(&self) -> bool {
        identity(&self.database).is_ok_and(|now| now == self.identity)
    }

    /// Frees what is set aside; whether there was anything.
    pub(super) fn give_up_reserve(&self) -> bool {
        self.is_full.store(true, Ordering::SeqCst);
        let is_freed = std::fs::remove_file(&self.reserve).is_ok();
        tracing::error!(
            is_freed,
            "The disk is full: no new requests are taken until there is room for {} MiB",
            2 * RESERVE / 1024 / 1024
        );
        is_freed
    }

    /// Sets the reserve aside where it is missing and there is room for twice
    /// its size. The disk counts as full no longer then.
    pub(super) fn keep_reserve(&self) {
        if self.reserve.exists() {
            return;
        }
        let room = statvfs(directory(&self.database))
            .map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
        if room < 2 * RESERVE {
            if !self.is_warned.swap(true, Ordering::SeqCst) {
                tracing::warn!("There is little room left on the disk: {} MiB", room / 1024 / 1024);
            }
            return;
        }
        self.is_warned.store(false, Ordering::SeqCst);
        if let Err(error) = self.set_aside() {
            // Some file systems can't; the gateway works without.
            tracing::debug!(error = &error as &dyn std::error::Error, "No reserve on this disk");
        }
        if self.is_full.swap(false, Ordering::SeqCst) {
            tracing::info!("There is room on the disk again");
        }
    }

    fn set_aside(&self) -> std::io::Result<()> {
        let file: File =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.reserve)?;
        if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, RESERVE) {
            std::fs::remove_file(&self.reserve)?;
            return Err(error.into());
        }
        Ok(())
    }
}

/// The device and the number of a file: the same as long as it is the same one.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_on_a_network_file_system_is_refused() {
        for network in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997] {
            assert!(network_name(network).is_some(), "{network:x}");
        }
        // ext4, XFS, btrfs, tmpfs, overlayfs, ZFS
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
    }

    #[test]
    fn a_database_that_was_replaced_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sayso.db");
        std::fs::write(&path, "one").unwrap();
        let disk = Disk::of(&path).unwrap();
        assert!(disk.is_same_file());

        std::fs::write(dir.path().join("other"), "two").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert!(!disk.is_same_file());
        std::fs::remove_file(&path).unwrap();
        assert!(!disk.is_same_file());
    }

    #[test]
    fn a_reserve_is_set_aside_once_and_given_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sayso.db");
        std::fs::write(&path, "").unwrap();
        let disk = Disk::of(&path).unwrap();

        disk.keep_reserve();
        disk.keep_reserve();
        assert_eq!(std::fs::metadata(&disk.reserve).unwrap().len(), RESERVE);
        assert!(disk.give_up_reserve() && disk.is_full());
        assert!(!disk.give_up_reserve());
        disk.keep_reserve();
        assert!(!disk.is_full());
    }
}
