/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes.c - error codes of the contract and their HTTP status, listed once
 *
 * A call below tags its error with a code where two failures of one errno must be
 * told apart; everything else gets the general code of its errno. Clients choose
 * their exception by code, so a code that is not in the contract is never sent.
 */
#include "api/api_internal.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

static const struct {
	const char *code;
	unsigned status;
} codes[] = {
	/* general */
	{ "BAD_REQUEST", 400 },
	{ "INVALID_REQUEST", 400 },
	{ "INVALID_PARAMETERS", 400 },
	{ "INVALID_ACCOUNT_ID", 400 },
	{ "UNAUTHORIZED", 401 },
	{ "UNAUTHORIZED_ERROR", 401 },
	{ "FORBIDDEN", 403 },
	{ "NOT_FOUND", 404 },
	{ "CONFLICT", 409 },
	{ "VPC_FORK_UNSUPPORTED", 400 },
	{ "INTERNAL_ERROR", 500 },
	{ "DATABASE_ERROR", 500 },
	{ "UNAVAILABLE", 503 },
	{ "SERVICE_UNAVAILABLE", 503 },
	/* VMs */
	{ "INVALID_VM_ID", 400 },
	{ "VM_NOT_RUNNING", 400 },
	{ "VM_ACCESS_DENIED", 403 },
	{ "VM_NOT_FOUND", 404 },
	{ "STILL_CREATING", 409 },
	{ "VM_DELETED", 410 },
	{ "CORRUPT_VM_RECORD", 500 },
	{ "CREATE_VM_BAD_REQUEST", 400 },
	{ "CREATE_VM_MEM_NOT_POWER_OF_TWO", 400 },
	{ "CREATE_VM_VCPU_NOT_POWER_OF_TWO", 400 },
	{ "CREATE_VM_ROOTFS_OUT_OF_RANGE", 400 },
	{ "CREATE_VM_MEM_OUT_OF_RANGE", 400 },
	{ "CREATE_VM_VCPU_OUT_OF_RANGE", 400 },
	{ "VM_IS_SUSPENDING", 409 },
	{ "VM_REACTIVATED", 409 },
	{ "RESUMED_VM_NON_RESPONSIVE", 500 },
	{ "SNAPSHOT_LOAD_TIMEOUT", 500 },
	{ "KERNEL_PANIC", 500 },
	{ "VM_EXIT_DURING_START", 500 },
	{ "VM_SPAWN_PROCESS", 500 },
	{ "SUSPEND_FAILED_VM_RESUMED", 500 },
	{ "SUSPEND_FAILED_AND_STOP_FAILED", 500 },
	{ "SUSPEND_FAILED_AND_STOPPED", 500 },
	{ "VM_SETUP_FAILED", 500 },
	{ "NO_LOCAL_STORAGE_CAPACITY", 503 },
	{ "INSUFFICIENT_SWAP", 503 },
	{ "VM_START_TIMEOUT", 504 },
	{ "FORK_VM_NOT_FOUND", 404 },
	{ "RESIZE_VM_MEM_NOT_POWER_OF_TWO", 400 },
	{ "RESIZE_VM_VCPU_NOT_POWER_OF_TWO", 400 },
	{ "RESIZE_VM_MEM_OUT_OF_RANGE", 400 },
	{ "RESIZE_VM_VCPU_OUT_OF_RANGE", 400 },
	{ "RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED", 400 },
	{ "RESIZE_VM_EMPTY_REQUEST", 400 },
	{ "RESIZE_FAILED", 500 },
	{ "ROOTFS_SIZE_TOO_LARGE", 400 },
	/* snapshots and specs */
	{ "INVALID_SNAPSHOT_ID", 400 },
	{ "SNAPSHOT_VM_BAD_REQUEST", 400 },
	{ "CONFLICTING_SPEC_SOURCES_ERROR", 400 },
	{ "NON_LEAF_LAYER_FIELD_ERROR", 400 },
	{ "INVALID_GIT_REPO_SPEC_ERROR", 400 },
	{ "CREATE_SNAPSHOT_BAD_REQUEST", 400 },
	{ "SNAPSHOT_NOT_FOUND", 404 },
	{ "NO_DEFAULT_SNAPSHOT_AVAILABLE", 404 },
	{ "BUILD_NOT_FOUND", 404 },
	{ "BUILD_NOT_FOUND_FOR_VM", 404 },
	{ "BUILD_NOT_FOUND_FOR_SNAPSHOT", 404 },
	{ "SNAPSHOT_IS_ACCOUNT_DEFAULT", 409 },
	{ "SNAPSHOT_ALREADY_DELETED", 409 },
	{ "SOURCE_SNAPSHOT_LOST", 409 },
	{ "SOURCE_SNAPSHOT_BUILDING", 409 },
	{ "SOURCE_SNAPSHOT_DELETED", 410 },
	{ "SNAPSHOT_SETUP_FAILED", 500 },
	{ "SNAPSHOT_LAYER_CREATION_FAILED", 500 },
	/* users, groups and services of a spec */
	{ "VALIDATION_ERROR", 400 },
	{ "DUPLICATE_USER_NAME", 400 },
	{ "USER_GROUP_EMPTY", 400 },
	{ "USER_SYSTEM_FLAG_MISMATCH", 400 },
	{ "USER_UID_OUT_OF_RANGE", 400 },
	{ "USER_HOME_INVALID", 400 },
	{ "USER_SHELL_INVALID", 400 },
	{ "DUPLICATE_GROUP_NAME", 400 },
	{ "GROUP_NAME_RESERVED", 400 },
	{ "GROUP_NAME_INVALID_CHARS", 400 },
	{ "GROUP_NAME_TOO_LONG", 400 },
	{ "GROUP_NAME_EMPTY", 400 },
	{ "USER_ALREADY_EXISTS", 409 },
	{ "GROUP_ALREADY_EXISTS", 409 },
	/* quotas */
	{ "MEMORY_STORAGE_QUOTA_EXCEEDED", 403 },
	{ "ROOTFS_STORAGE_QUOTA_EXCEEDED", 403 },
	{ "TOTAL_VM_LIMIT_EXCEEDED", 403 },
	{ "VM_LIMIT_EXCEEDED", 403 },
	{ "SNAPSHOT_LIMIT_EXCEEDED", 403 },
	{ "LIMIT_EXCEEDED", 403 },
	{ "ROOTFS_OVER_PLAN_LIMIT", 403 },
	{ "MEM_OVER_PLAN_LIMIT", 403 },
	{ "VCPU_OVER_PLAN_LIMIT", 403 },
	/* identities */
	{ "IDENTITY_ACCESS_DENIED", 403 },
	{ "CANNOT_DELETE_MANAGED_IDENTITY", 403 },
	{ "CANNOT_MODIFY_MANAGED_IDENTITY", 403 },
	{ "IDENTITY_NOT_FOUND", 404 },
	{ "VM_PERMISSION_NOT_FOUND", 404 },
	{ "PERMISSION_NOT_FOUND", 404 },
	{ "GIT_REPOSITORY_NOT_FOUND", 404 },
	{ "PERMISSION_ALREADY_EXISTS", 409 },
	/* inside a VM */
	{ "FILES_BAD_REQUEST", 400 },
	{ "FILE_NOT_FOUND", 404 },
	{ "EXEC_TIMED_OUT", 408 },
	{ "USER_NOT_FOUND", 404 },
	{ "INVALID_SESSION_ID", 400 },
	{ "SESSION_USER_MISMATCH", 403 },
	{ "SESSION_NOT_FOUND", 404 },
	{ "SESSION_ALREADY_EXISTS", 409 },
	{ "SESSION_EXPIRED", 410 },
	{ "SESSION_CAP_REACHED", 429 },
	/* systemd */
	{ "WANTED_BY_EMPTY", 400 },
	{ "WORKDIR_EMPTY", 400 },
	{ "GROUP_EMPTY", 400 },
	{ "USER_EMPTY", 400 },
	{ "ON_FAILURE_ARRAY_CONTAINS_EMPTY", 400 },
	{ "REQUIRES_ARRAY_CONTAINS_EMPTY", 400 },
	{ "AFTER_ARRAY_CONTAINS_EMPTY", 400 },
	{ "ENV_KEY_CONTAINS_EQUALS", 400 },
	{ "ENV_KEY_EMPTY", 400 },
	{ "EXEC_EMPTY", 400 },
	{ "SERVICE_NAME_TOO_LONG", 400 },
	{ "SERVICE_NAME_INVALID_PREFIX", 400 },
	{ "SERVICE_NAME_INVALID_CHARS", 400 },
	{ "SERVICE_NAME_EMPTY", 400 },
	{ "SERVICE_NOT_FOUND", 404 },
	{ "SERVICE_ALREADY_EXISTS", 409 },
	/* logs */
	{ "INVALID_QUERY", 400 },
};

static const struct {
	int code;
	const char *name;
} by_errno[] = {
	{ -EINVAL, "BAD_REQUEST" },
	{ -E2BIG, "BAD_REQUEST" },
	{ -ENAMETOOLONG, "BAD_REQUEST" },
	{ -ERANGE, "BAD_REQUEST" },
	{ -ENOTSUP, "BAD_REQUEST" },
	{ -ENOENT, "NOT_FOUND" },
	{ -EACCES, "FORBIDDEN" },
	{ -EPERM, "FORBIDDEN" },
	{ -EEXIST, "CONFLICT" },
	{ -EBUSY, "CONFLICT" },
	{ -EAGAIN, "UNAVAILABLE" },
	{ -ENOMEM, "UNAVAILABLE" },
	{ -ENOBUFS, "UNAVAILABLE" },
	{ -ETIMEDOUT, "UNAVAILABLE" },
	{ -ESHUTDOWN, "UNAVAILABLE" },
	{ -ENOSPC, "NO_LOCAL_STORAGE_CAPACITY" },
	{ -EDQUOT, "NO_LOCAL_STORAGE_CAPACITY" },
	{ -ECONNRESET, "VM_NOT_RUNNING" },
	{ -ENOTCONN, "VM_NOT_RUNNING" },
};

unsigned status_of(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strcmp(codes[i].code, code) == 0)
			return codes[i].status;
	return 0;
}

const char *code_of(const struct err *err)
{
	if (err->tag && status_of(err->tag))
		return err->tag;
	for (size_t i = 0; i < ARRAY_SIZE(by_errno); i++)
		if (by_errno[i].code == err->code)
			return by_errno[i].name;
	return "INTERNAL_ERROR";
}
