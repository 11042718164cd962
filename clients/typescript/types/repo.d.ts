/** What the API has of a repository without a clone. Search, triggers and mirrors: pando.calls. */
export class Repo {
    /** @param {import("../gen/api.js").Calls} calls @param {string} id */
    constructor(calls: import("../gen/api.js").Calls, id: string);
    /** @type {string} */
    id: string;
    info(): Promise<import("../gen/api.js").Repository>;
    delete(): Promise<void>;
    branches(): Promise<{
        name: string;
        commit: string | null;
    }[]>;
    /** At a commit, or at the head of the default branch. @param {string} name @param {string} [sha] */
    createBranch(name: string, sha?: string): Promise<import("../gen/api.js").Branch>;
    /** @param {{ branch?: string, limit?: number, offset?: number }} [options] */
    commits(options?: {
        branch?: string;
        limit?: number;
        offset?: number;
    }): Promise<import("../gen/api.js").Commit[]>;
    /** A directory's entries, or a file's content. @param {string} [path] @param {{ rev?: string, recursive?: boolean }} [options] */
    contents(path?: string, options?: {
        rev?: string;
        recursive?: boolean;
    }): Promise<import("../gen/api.js").ContentEntry>;
    /** @param {string} path @param {{ rev?: string }} [options] */
    read(path: string, options?: {
        rev?: string;
    }): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * A commit on a branch without a clone: a file's content, or null to remove it.
     * @param {string} message
     * @param {Record<string, string | Uint8Array | null>} files
     * @param {{ branch?: string, expectedSha?: string, author?: { name: string, email: string } }} [options] expectedSha: only if the branch is there
     */
    commit(message: string, files: Record<string, string | Uint8Array | null>, options?: {
        branch?: string;
        expectedSha?: string;
        author?: {
            name: string;
            email: string;
        };
    }): Promise<import("../gen/api.js").Commit>;
    /** @param {string} base @param {string} head */
    compare(base: string, head: string): Promise<{
        status: string;
        ahead_by: number;
        behind_by: number;
        total_commits: number;
        files: Array<{
            sha: string | null;
            filename: string;
            status: string;
            additions: number;
            deletions: number;
            changes: number;
            previous_filename: string | null;
        }>;
    }>;
    /** All files of a revision. @param {{ rev?: string, zip?: boolean }} [options] @returns {Promise<ReadableStream<Uint8Array>>} */
    archive({ rev, zip }?: {
        rev?: string;
        zip?: boolean;
    }): Promise<ReadableStream<Uint8Array>>;
    #private;
}
