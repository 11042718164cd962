// SPDX-License-Identifier: Apache-2.0
// Made by generate.mjs from docs/openapi.json. Do not edit: run 'npm run generate'.
import type { Bytes, CallOptions, ServerEvent } from "../common.js";

/** The version of the server that this was made from. */
export const API_VERSION: string;

export interface Error {
  /** from the list of error codes */
  code: string;
  message: string;
  /** the code again */
  error: string;
  /** the message again */
  description: string;
  /** seconds; waiting helps */
  retryAfter?: number;
  [member: string]: unknown;
}

export type Empty = Record<string, unknown>;

export interface Id {
  id: string;
}

export interface Node {
  id: string;
  name: string;
  address: string;
  health: "alive" | "silent" | "dead";
  /** the one that answers */
  self: boolean;
  draining: boolean;
  generation: number;
  version: string;
  vcpuCount: number;
  memoryMb: number;
  freeMemoryMb: number;
  runningVms: number;
  /** whose owner it is */
  vms: number;
  /** as of its last beat */
  pendingUploads: number;
  accelerator: string;
  qemuVersion: string;
  /** since its last beat */
  silentMs: number;
}

export interface NodeDrain {
  drain?: boolean;
}

export type VmState = "building" | "starting" | "running" | "suspending" | "suspended" | "stopped" | "lost";

export type Tags = string[];

export type Metadata = Record<string, string>;

export type SelfVerb = "snapshot" | "fork" | "suspend" | "rewind" | "children" | "delete";

export interface VmSizing {
  vcpuCount: number;
  memSizeMib: number;
  rootfsSizeMb: number;
}

export interface VmUsage {
  cpuSeconds: number;
  wallSeconds: number;
  memoryGbSeconds: number;
  networkInBytes: number;
  networkOutBytes: number;
  diskReadBytes: number;
  diskWriteBytes: number;
}

export interface VmCommon {
  id: string;
  state: VmState;
  name: string | null;
  createdAt: string;
  lastNetworkActivity: string | null;
  snapshotId: string | null;
  buildId: string | null;
  cpuTimeSeconds: number;
  persistence: Persistence;
  metrics: {
    wallTimeSeconds: number;
    billingDay: string;
    isActiveToday: boolean;
  };
  sizing: VmSizing;
  /** the VM it was forked from */
  parentVmId: string | null;
  usage: VmUsage;
  deleteAt: string | null;
  tags?: Tags;
  metadata?: Metadata;
}

export type VmItem = VmCommon & ({
  deleted: boolean;
  createdDeclaratively: boolean;
  deletedAt?: string | null;
  deleteReason?: string | null;
});

export type Vm = VmCommon & ({
  recreate: boolean;
  vmInstanceId: string | null;
  idleTimeoutSeconds: number | null;
  checkpointEverySeconds: number;
  activityThresholdBytes: number;
  countExecAsActivity: boolean;
  workdir: string | null;
  selfAccess: {
    allow: SelfVerb[];
    inherit: boolean;
  } | boolean;
  forkIndex: number;
  forkCount: number;
});

export interface VmList {
  vms: VmItem[];
  totalCount: number;
  runningCount: number;
  startingCount: number;
  suspendedCount: number;
  stoppedCount: number;
  buildingCount: number;
  suspendingCount: number;
  lostCount: number;
  userId: string;
}

export interface VmMade {
  id: string;
  domains: string[];
  consoleUrl: null;
}

export type VmCreated = VmMade & ({
  snapshotId: string | null;
  ports?: Port[];
});

export interface SnapshotBuilt {
  snapshotId: string;
  buildId: string | null;
}

export interface Port {
  port: number;
  targetPort: number | null;
  protocol: string;
  createdAt: string | null;
  address?: string | null;
  listening?: boolean;
  error?: string | null;
}

export interface Stats {
  timestamp: string;
  vmId: string;
  state: VmState | "deleted";
  cpu?: {
    percent: number;
    seconds: number;
  };
  memory?: {
    rssBytes: number;
    privateBytes: number;
  };
  disk?: {
    readBytes: number;
    writeBytes: number;
  };
  network?: {
    rxBytes: number;
    txBytes: number;
  };
}

export interface EgressShown {
  mode: "open" | "closed" | "rules";
  rules: Array<{
    action: "allow" | "deny";
    domain?: string;
    cidr?: string;
    ports?: Array<number | string>;
  }>;
  inject: Array<{
    domain: string;
    headers: Record<string, string>;
  }>;
  bandwidth?: {
    upMbps?: number;
    downMbps?: number;
  };
}

export interface Blocked {
  kind: "dns" | "address" | "name";
  domain?: string;
  address?: string;
  protocol?: string;
  port?: number;
  count: number;
  lastAt: string;
}

export type Spec = SpecLayer & Sizing & ({
  name?: string;
  ports?: PortMap[] | null;
  /** not supported: layers start from the server's image or a snapshot */
  baseImage?: unknown;
});

export interface VmNew {
  name?: string | null;
  idleTimeoutSeconds?: number | null;
  activityThresholdBytes?: number | null;
  persistence?: Persistence | null;
  domains?: DomainWish[] | null;
  egress?: Egress | null;
  nics?: Nic[] | null;
  ports?: PortMap[] | null;
  waitForReadySignal?: boolean | null;
  readySignalTimeoutSeconds?: number | null;
  countExecAsActivity?: boolean | null;
  recreate?: boolean | null;
  tags?: Tags | null;
  metadata?: Metadata | null;
  /** of every process that the agent starts */
  env?: Record<string, string> | null;
  selfAccess?: SelfAccess | boolean | null;
  deleteAfterSeconds?: number | null;
  checkpointEverySeconds?: number | null;
}

export interface VmStart {
  idleTimeoutSeconds?: number | null;
  activityThresholdBytes?: number | null;
  waitForReadySignal?: boolean | null;
  readySignalTimeoutSeconds?: number | null;
  countExecAsActivity?: boolean | null;
}

export interface VmChange {
  name?: string | null;
  idleTimeoutSeconds?: number | null;
  activityThresholdBytes?: number;
  countExecAsActivity?: boolean;
  deleteAfterSeconds?: number | null;
  checkpointEverySeconds?: number | null;
  tags?: Tags | null;
  metadata?: Metadata | null;
  selfAccess?: SelfAccess | boolean | null;
}

export interface VmFork {
  count?: number | null;
  persistence?: Persistence | null;
  vpc?: string | null;
  deleteAfterSeconds?: number | null;
  spread?: boolean | null;
}

export interface VmResize {
  vcpuCount?: number | null;
  memSizeGb?: number | null;
  rootfsSizeGb?: number | null;
}

export interface Persistence {
  type: "sticky" | "ephemeral" | "persistent";
  priority?: number | null;
  deleteEvent?: "OnStop" | "OnSuspend" | null;
}

export interface SelfAccess {
  allow?: SelfVerb[] | null;
  inherit?: boolean | null;
}

export interface SelfFork {
  count?: number | null;
  inherit?: boolean | null;
}

export interface PortMap {
  /** 443: the VM's own name; left out: a free port of this server */
  port?: number | null;
  targetPort: number;
  protocol?: "tcp" | "udp" | null;
}

export interface Egress {
  mode?: "open" | "closed" | "rules";
  rules?: EgressRule[] | null;
  inject?: Array<{
    domain: string;
    headers: Record<string, string>;
  }> | null;
  bandwidth?: {
    upMbps?: number | null;
    downMbps?: number | null;
  } | null;
}

export interface EgressRule {
  action: "allow" | "deny";
  domain?: string | null;
  cidr?: string | null;
  /** ports, and ranges such as 8000-8080 */
  ports?: Array<number | string> | null;
}

export interface Sizing {
  vcpuCount?: number | null;
  memSizeGb?: number | null;
  rootfsSizeGb?: number | null;
}

export interface SpecLayer {
  groups?: SpecGroup[] | null;
  users?: SpecUser[] | null;
  additionalFiles?: Record<string, SpecFile> | null;
  aptDeps?: string[] | null;
  git?: SpecGit | null;
  gitRepos?: SpecRepo[] | null;
  systemd?: SpecSystemd | null;
  runtimes?: string[] | null;
  workdir?: string | null;
  discriminator?: string | null;
  snapshotId?: string | null;
  snapshot?: Spec | null;
  skipCache?: boolean | null;
  idleTimeoutSeconds?: number | null;
  waitForReadySignal?: boolean | null;
  readySignalTimeoutSeconds?: number | null;
}

export interface SpecSource {
  spec?: Spec | null;
  template?: Spec | null;
}

export interface SpecGroup {
  name: string;
  gid?: number | null;
  system?: boolean | null;
}

export interface SpecUser {
  name: string;
  gecos?: string | null;
  home?: string | null;
  shell?: string | null;
  uid?: number | null;
  groups?: string[] | null;
  system?: boolean | null;
}

export interface SpecFile {
  content: string;
  encoding?: "utf-8" | "utf8" | "base64" | null;
  executable?: boolean | null;
}

export interface SpecRepo {
  repo: string;
  path?: string | null;
  rev?: string | null;
}

export interface SpecGit {
  config?: {
    user?: SpecGitUser;
  } | null;
  repos?: SpecRepo[] | null;
}

export interface SpecGitUser {
  name?: string | null;
  email?: string | null;
  signingkey?: string | null;
}

export interface SpecSystemd {
  services?: ServiceNew[] | null;
  patchedServices?: ServiceNew[] | null;
}

export interface TreeNode {
  id: string;
  type: "point" | "vm";
  kind: string;
  parent: string | null;
  name: string | null;
  createdAt: string | null;
  shared: boolean;
  sizing: VmSizing;
  memory: {
    ownBytes: number;
    sharedBytes: number;
  };
  disk: {
    ownBytes: number;
    sharedBytes: number;
  };
  sourceVmId?: string | null;
  snapshotId?: string | null;
  snapshots?: Array<{
    snapshotId: string;
    name: string | null;
    createdAt: string;
  }>;
  state?: VmState;
  parentVmId?: string | null;
  /** of a running VM: memory that only its process has, now */
  privateBytes?: number;
}

export interface Tree {
  roots: string[];
  nodes: TreeNode[];
  totals: {
    memoryBytes: number;
    diskBytes: number;
  };
}

export interface FileDiff {
  path: string;
  change: string;
  kind: string;
  size: number | null;
  otherSize: number | null;
  mtime: string | null;
}

export interface Rewind {
  snapshotId: string | null;
  keep?: boolean | null;
}

export interface Snapshot {
  snapshotId: string;
  state: "ready" | "building" | "failed" | "lost";
  name: string | null;
  sourceVmId: string | null;
  sourceVmInstanceId: string | null;
  createdAt: string;
  buildId: string | null;
  failed: boolean;
  cancelled: boolean;
  lost: boolean;
  deleted: boolean;
  failureReason: string | null;
  accountId: string;
  snapshotPersistence: Persistence;
  templateHash: string | null;
  vcpuCount: number;
  memSizeMib: number;
  rootfsSizeMb: number;
  updatedAt: string;
}

export interface Build {
  buildId: string;
  accountId: string;
  requestId: string | null;
  state: string;
  templateHash: string | null;
  failureReason: string | null;
  plannedPhases: string[];
  startedAt: string | null;
  finishedAt: string | null;
  updatedAt: string | null;
}

export interface SnapshotNew {
  name?: string | null;
  persistence?: Persistence | null;
}

export interface SnapshotName {
  name: string | null;
}

export interface ExecResult {
  stdout: string;
  stderr: string;
  statusCode: number | null;
  stdoutTruncated?: boolean;
  stderrTruncated?: boolean;
}

export interface Process {
  processId: string;
  pid: number;
  command: string;
  user: string;
  startedAt: string;
  running: boolean;
  attached: boolean;
  timedOut: boolean;
  stdinOpen: boolean;
  statusCode: number | null;
  signal: string | null;
  durationMs: number;
  stdoutBytes: number;
  stderrBytes: number;
  stdoutStart: number;
  stderrStart: number;
}

export interface CellResult {
  contextId: string;
  language: string;
  executionCount: number;
  durationMs: number;
  stdout: string;
  stderr: string;
  /** by media type */
  results: Record<string, unknown>[];
  files: Array<{
    path: string;
    size: number;
    mime: string;
  }>;
  error?: {
    name: string;
    value: string;
    traceback: string;
  };
  timedOut?: boolean;
  interrupted?: boolean;
  kernelRestarted?: boolean;
  stdoutTruncated?: boolean;
  stderrTruncated?: boolean;
  filesTruncated?: boolean;
}

export interface CodeContext {
  contextId: string;
  language: string;
  cwd: string;
  state: string;
  default: boolean;
  executionCount: number;
  waiting: number;
  user: string;
  createdAt: string;
}

export interface PtySession {
  sessionId: string;
  running: boolean;
  cols: number;
  rows: number;
  createdAtMs: number;
  attachedCount: number;
  exec: string | null;
  user: string;
  exitCode: number | null;
  exitedAtMs: number | null;
  suspended: boolean;
}

export interface Service {
  name: string;
  loadState?: string | null;
  activeState?: string | null;
  subState?: string | null;
  description?: string | null;
  enablement?: string | null;
  state?: string | null;
  result?: string | null;
}

export interface ServiceResults {
  results: Array<{
    serviceId: string;
    success: boolean;
    message: string;
  }>;
}

export interface FileContent {
  content: string;
  encoding?: "utf8" | "base64";
}

export interface FileList {
  files: Array<{
    name: string;
    kind: "file" | "directory";
  }>;
}

export interface Exec {
  command: string;
  /** keeps the output under this name: /terminals */
  terminal?: string | null;
  timeoutMs?: number | null;
}

export interface ExecStream {
  command: string;
  stdin?: string | null;
  stdinEncoding?: "utf-8" | "base64" | null;
  env?: Record<string, string> | null;
  cwd?: string | null;
  detach?: boolean | null;
  openStdin?: boolean | null;
  timeoutMs?: number | null;
}

export interface Signal {
  /** SIGTERM, TERM or 15 */
  signal: string | number;
}

export interface CellNew {
  language?: string | null;
  code: string;
  contextId?: string | null;
  timeoutMs?: number | null;
  stream?: boolean | null;
}

export interface ContextNew {
  language: string;
  cwd?: string | null;
  env?: Record<string, string> | null;
}

export interface PtyTicketNew {
  sessionId?: string | null;
  origin?: string | null;
  ttlSeconds?: number | null;
}

export interface FileWatch {
  path?: string | null;
}

export interface ServiceNew {
  name: string;
  mode?: string | null;
  user?: string | null;
  group?: string | null;
  workdir?: string | null;
  exec?: string[] | null;
  after?: string[] | null;
  requires?: string[] | null;
  onFailure?: string[] | null;
  wantedBy?: string[] | null;
  env?: Record<string, string> | null;
  restartPolicy?: ServiceRestart | null;
  enable?: boolean | null;
  deleteAfterSuccess?: boolean | null;
  remainAfterExit?: boolean | null;
  readySignal?: boolean | null;
  timeoutSec?: number | null;
  watchdogSec?: number | null;
}

export interface ServiceRestart {
  policy: string;
  restartSec?: number | null;
  startLimitBurst?: number | null;
  startLimitIntervalSec?: number | null;
}

export interface ServiceNames {
  services: Array<{
    id: string;
  }>;
}

export interface SelfVm {
  id: string;
  name: string | null;
  parent: string | null;
  index: number;
  count: number;
  state: VmState;
  selfAccess: SelfVerb[];
  inherit: boolean;
}

export interface Quotas {
  vms: number | null;
  runningVms: number | null;
  vcpus: number | null;
  memoryMb: number | null;
  diskMb: number | null;
  snapshots: number | null;
  gitRepos: number | null;
  gitMb: number | null;
}

export interface Account {
  id: string;
  name: string | null;
  admin: boolean;
  createdAt: string | null;
  /** of its own */
  quotas: Quotas;
  /** that apply */
  limits: Quotas;
  usage: Quotas;
}

export interface Key {
  id: string;
  name: string | null;
  createdAt: string | null;
  lastUsedAt: string | null;
}

export interface AuditRecord {
  id: number;
  at: string;
  accountId: string | null;
  keyId: string | null;
  identityId: string | null;
  method: string;
  route: string;
  target: string | null;
  status: number;
  code: string | null;
  remote: string | null;
  traceId: string | null;
  repeated?: number;
  /** who acted as the account */
  operatorAccountId?: string;
}

export interface Identity {
  id: string;
  managed: boolean;
}

export interface VmPermission {
  id: string;
  vmId: string;
  identityId: string;
  allowedUsers: string[] | null;
  grantedAt: string;
  grantedBy: string | null;
}

export interface GitPermission {
  identity: string;
  repo: string;
  accessLevel: "read" | "write" | null;
}

export interface LogLine {
  timestamp: string;
  message: string;
  source: string;
  resourceType: string;
  resourceId: string;
  instanceId: string | null;
  level: string;
  vmService: string | null;
  buildId: string | null;
  requestId: string | null;
  domain?: string | null;
  access?: {
    seq: number;
    method: string;
    host: string;
    path: string;
    protocol: string;
    tls: boolean;
    status: number | null;
    bytesIn: number;
    bytesOut: number;
    durationMs: number;
    client: string;
    clientIsVm: boolean;
    wokeVm: boolean;
    error: string | null;
  };
}

export interface Webhook {
  id: string;
  url: string;
  events: string[] | null;
  vmId: string | null;
  tags: Tags | null;
  metadata: Metadata | null;
  enabled: boolean;
  hasSecret: boolean;
  droppedEvents: number;
  createdAt: string;
  updatedAt: string;
  /** shown once */
  secret?: string;
}

export interface WebhookDelivery {
  id: string;
  webhookId: string;
  eventId: string;
  type: string;
  state: string;
  attempts: number;
  statusCode: number | null;
  error: string | null;
  createdAt: string;
  updatedAt: string;
  nextAttemptAt: string | null;
  /** the body that is sent */
  event?: WebhookEvent | null;
}

export interface WebhookEvent {
  id: string;
  type: string;
  createdAt: string;
  accountId: string;
  vm?: {
    id: string;
    name: string | null;
    state: VmState | "deleted";
    reason: string | null;
    tags: Tags;
    metadata: Metadata;
    snapshotId: string | null;
    parentVmId: string | null;
    createdAt: string | null;
    forks?: string[];
  };
  snapshot?: {
    id: string;
    name: string | null;
    state: string;
    reason: string | null;
    sourceVmId: string | null;
    buildId: string | null;
    createdAt: string | null;
  };
  build?: {
    id: string;
    state: string;
    reason: string | null;
    startedAt: string | null;
  };
}

export interface AccountNew {
  name?: string;
  quotas?: QuotasNew;
}

export interface QuotasNew {
  vms?: number | null;
  runningVms?: number | null;
  vcpus?: number | null;
  memoryMb?: number | null;
  diskMb?: number | null;
  snapshots?: number | null;
  gitRepos?: number | null;
  gitMb?: number | null;
}

export interface KeyNew {
  name?: string | null;
}

export interface WebhookNew {
  url?: string;
  vmId?: string | null;
  /** names or vm.*; none: all */
  events?: string[] | null;
  tags?: Tags | null;
  metadata?: Metadata | null;
  /** true: one is made and shown once */
  secret?: string | boolean | null;
  enabled?: boolean;
}

export interface VmPermissionNew {
  /** names of Linux users; null: all */
  allowedUsers?: string[] | null;
}

export interface GitPermissionNew {
  permission: "read" | "write";
}

export interface RunLog {
  message: string;
  type: "log" | "error";
}

export interface RunResult {
  result: unknown;
  logs: RunLog[];
  runId: string;
  /** messages, and the result as the last line */
  output: string;
}

export interface Run {
  /** its id */
  deployment: string;
  accountId: string;
  provisionedAt: string;
  startedAt: string | null;
  duration: string | null;
  state: "starting" | "running" | "complete";
  envVars: Record<string, string>;
  tags: string[];
  failed: boolean;
  vmId: string | null;
  scheduleId: string | null;
}

export type ScheduledRun = RunConfig & {
  code: string;
};

export type CronStatus = "queued" | "running" | "succeeded" | "failed" | "retry";

export interface Schedule {
  id: string;
  accountId: string;
  deploymentId: string | null;
  name: string | null;
  path: string | null;
  cron: string;
  timezone: string;
  retries: number;
  payload: unknown;
  active: boolean;
  createdAt: string;
  updatedAt: string;
  nextRunAt: string | null;
  /** without the values of its variables */
  runConfig: ScheduledRun | null;
}

export interface Attempt {
  id: string;
  executionId: string;
  attemptNumber: number;
  status: CronStatus;
  /** the run's id */
  instanceId: string | null;
  error: string | null;
  startedAt: string;
  completedAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Execution {
  id: string;
  scheduleId: string;
  deploymentId: string | null;
  runAt: string;
  nextRetryAt: string | null;
  status: CronStatus;
  attempts: number;
  maxAttempts: number;
  lockedAt: string | null;
  lockOwner: string | null;
  lastError: string | null;
  /** the last run's id */
  instanceId: string | null;
  startedAt: string | null;
  completedAt: string | null;
  createdAt: string;
  updatedAt: string;
  attemptHistory: Attempt[];
}

export interface SchedulePoint {
  timestamp: string;
  executionCount: number;
  succeededCount: number;
  succeededOnFirstTryCount: number;
  succeededOnRetryCount: number;
  failedCount: number;
  averageLatencyMs: number | null;
  averageSuccessLatencyMs: number | null;
  averageFailureLatencyMs: number | null;
  p50SuccessLatencyMs: number | null;
  p90SuccessLatencyMs: number | null;
  p99SuccessLatencyMs: number | null;
}

export interface RunNew {
  /** an ES module in JavaScript or TypeScript */
  script: string;
  /** its name; none: one is made */
  executionId?: string | null;
  config?: RunConfig | null;
}

export interface RunConfig {
  envVars?: Record<string, string> | null;
  /** the same as envVars */
  env?: Record<string, string> | null;
  /** packages of npm with their versions */
  nodeModules?: Record<string, string> | null;
  /** also those that the script imports */
  inferNodeModules?: boolean | null;
  tags?: string[] | null;
  /** seconds */
  timeout?: number | null;
  peerDependencyResolution?: boolean | null;
  networkPermissions?: Array<{
    action: "allow" | "deny";
    query: string;
    behavior?: "exact" | "regex";
  }> | null;
  /** of every fetch() of the script */
  customHeaders?: Record<string, string> | null;
  /** not supported */
  proxy?: string | null;
  egress?: {
    allow?: {
      domains?: Record<string, Array<{
        transform?: Array<{
          headers?: Record<string, string>;
        }>;
      }>> | null;
      ips?: Record<string, Record<string, unknown>[]> | null;
    } | null;
    deny?: {
      ips?: Record<string, Record<string, unknown>[]> | null;
    } | null;
  } | null;
  /** keep neither script nor variables, logs and result */
  zeroRetention?: boolean | null;
}

export interface ScheduleNew {
  /** instead of 'run': the deployment that gets a POST with the payload */
  deploymentId?: string | null;
  name?: string | null;
  path?: string | null;
  /** minute hour day month weekday */
  cron?: string | null;
  /** such as Europe/Berlin; UTC if absent */
  timezone?: string | null;
  retries?: number | null;
  /** what the default export is called with */
  payload?: unknown;
  run?: RunConfig & {
    code: string;
  } | null;
  active?: boolean | null;
}

export interface Deployment {
  deploymentId: string;
  accountId: string;
  name: string | null;
  provisionedAt: string;
  /** milliseconds */
  timeout: string;
  state: "provisioning" | "deployed" | "failed";
  deployedAt: string | null;
  domains: string[];
  /** without their values */
  envVars: Record<string, string>;
  buildId: string | null;
  failedReason: string | null;
}

export interface DeploymentInfo {
  deploymentId: string;
  accountId: string;
  name: string | null;
  provisionedAt: string;
  /** milliseconds */
  timeout: number;
  state: "provisioning" | "deployed" | "failed";
  deployedAt: string | null;
  domains: string[];
  /** without their values */
  envVars: Record<string, string>;
  buildId: string | null;
  failedReason: string | null;
  snapshotId: string | null;
  port: number;
  maxInstances: number;
  requestsPerInstance: number;
  entrypoint: string | null;
  instances: Array<{
    vmId: string | null;
    state: "starting" | "ready";
    requests: number;
    since: string;
  }>;
}

export interface DeploymentEvent {
  type: string;
  timestamp: string;
  message: string;
}

export interface DeploymentNew {
  source: DeploymentSource;
  config?: DeploymentConfig | null;
}

export interface DeploymentSource {
  /** files, git or tar */
  kind: string;
  /** by their paths */
  files?: Record<string, {
    content: string;
    encoding?: string | null;
    executable?: boolean | null;
  }> | null;
  /** of a tar archive or a Git repository, or the id of one of this server */
  url?: string | null;
  branch?: string | null;
  dir?: string | null;
}

export interface DeploymentConfig {
  name?: string | null;
  domains?: string[] | null;
  entrypoint?: string | null;
  envVars?: Record<string, string> | null;
  /** packages of npm with their versions */
  nodeModules?: Record<string, string> | null;
  /** milliseconds without a request, then an instance ends */
  timeout?: number | null;
  /** always done */
  serverStartCheck?: boolean | null;
  networkPermissions?: Array<{
    action: "allow" | "deny";
    query: string;
    behavior?: "exact" | "regex";
  }> | null;
  egress?: {
    allow?: unknown;
    deny?: unknown;
  } | null;
  build?: {
    command: string;
    outDir?: string | null;
    envVars?: Record<string, string> | null;
  } | boolean | null;
  /** false: answer before it is built */
  await?: boolean | null;
  staticDir?: string | null;
  staticPathPrefix?: string | null;
  publicDir?: string | null;
  prerenderDir?: string | null;
  staticOnly?: boolean | null;
  redirects?: Array<{
    source: string;
    destination: string;
    statusCode?: number | null;
    permanent?: boolean | null;
  }> | null;
  rewrites?: Array<{
    source: string;
    destination: string;
  }> | null;
  dynamic?: Array<{
    source: string;
    methods?: string[] | null;
  }> | null;
  headers?: Array<{
    source: string;
    headers: Array<{
      key: string;
      value: string;
    }>;
  }> | null;
  cleanUrls?: boolean | null;
  trailingSlash?: boolean | null;
  /** changes nothing here */
  experimental?: {
    nextjsOptimization?: boolean;
  } | null;
  /** at most so many at a time */
  instances?: number | null;
  /** at a time */
  requestsPerInstance?: number | null;
}

export interface Domain {
  domain: string;
  id: string;
  accountId: string;
  createdAt: string;
  verifiedDns: boolean;
  implicitlyOwned: boolean;
  manageDns: boolean;
  deployToDomain: boolean;
  deployToSubdomains: boolean;
}

export interface NameRecord {
  type: string;
  name: string;
  value: string;
}

export interface Verification {
  id: string;
  domain: string;
  verificationCode: string;
  createdAt: string;
  accountId?: string;
  dnsRecords?: NameRecord[];
}

export interface Mapping {
  protocol: "http1" | "h2c" | "tls";
  id: string;
  domain: string;
  vmId: string | null;
  vmPort: number | null;
  deploymentId: string | null;
  ownershipId: string;
  createdAt: string;
  unmappedAt: null;
}

export interface DnsRecord {
  id: string;
  kind: string;
  name: string;
  value: string;
  ttl: string;
  priority: number | null;
  managed: boolean;
  createdAt: string;
}

export interface Vpc {
  vpcId: string;
  id: string;
  name: string | null;
  cidr: string;
  createdAt: string;
  vms?: Array<{
    vmId: string;
    ipv4: string;
  }>;
}

export interface Tunnel {
  vpcId: string;
  endpointHost: string;
  endpointPort: number;
  listenPort: number;
  interfaceName: string;
  serverPublicKey: string;
  clientPublicKey: string;
  serverTunnelIp: string;
  clientTunnelIp: string;
  vpcCidr: string;
  clientAllowedIps: string[];
  clientConfig: string;
  sessionId?: string;
  gatewayVmId?: string;
  /** shown once */
  clientPrivateKey?: string;
  vpcIp?: string;
  expiresAt?: string;
}

export interface MappingNew {
  vmId?: string | null;
  vmPort?: number | null;
  protocol?: string | null;
  deploymentId?: string | null;
}

export interface DomainWish {
  domain: string;
  vmPort?: number | null;
  protocol?: string | null;
}

export interface VerificationWish {
  domain?: string | null;
  id?: string | null;
  verificationCode?: string | null;
}

export interface DnsRecordNew {
  kind: string;
  name?: string | null;
  value: string;
  ttl?: string | number | null;
  priority?: number | null;
}

export interface DnsRecordAdd {
  domain: string;
  record: DnsRecordNew;
}

export interface VpcNew {
  name?: string | null;
  cidr?: string | null;
}

export interface Nic {
  vpc: string;
  mode?: "routed" | null;
  default?: boolean | null;
  /** an address of the VPC; true: any */
  ipv4?: string | boolean | null;
}

export interface WireguardClose {
  sessionId: string;
}

export interface WireguardPeerNew {
  gatewayVmId: string;
  clientPublicKey: string;
}

export interface Repository {
  id: string;
  name: string | null;
  accountId: string;
  visibility: "public" | "private";
  defaultBranch: string;
  createdAt: string;
  pushedAt: string | null;
  bytes: number;
}

export interface RepositoryItem {
  id: string;
  repoId: string;
  name: string | null;
  accountId: string;
  visibility: "public" | "private";
  defaultBranch: string;
  bytes: number;
  branches: Record<string, {
    name: string | null;
    target: string | null;
    default: boolean;
  }>;
  tags: Record<string, {
    name: string | null;
    target: string;
    message: string | null;
  }>;
  createdAt: string;
}

export interface GitObject {
  sha: string;
}

export interface GitPerson {
  date: string | null;
  name: string | null;
  email: string | null;
}

export interface Commit {
  sha: string;
  author: GitPerson;
  committer: GitPerson;
  message: string | null;
  tree: GitObject;
  parents: GitObject[];
}

export interface Branch {
  name: string;
  sha: string;
}

export interface FoundFile {
  path: string | null;
  extension: string | null;
  size: number;
}

export interface FoundLine {
  lineNumber: number;
  line: string;
  startColumn: number;
  endColumn: number;
  contextBefore: string[];
  contextAfter: string[];
}

export interface FoundCommit {
  sha: string;
  authorName: string;
  authorEmail: string;
  timestamp: string;
  message: string;
}

export interface LfsAction {
  href: string;
  header: Record<string, string>;
}

export interface GitTag {
  name: string | null;
  tagger: GitPerson | null;
  message: string | null;
  target: GitObject;
  sha: string;
}

export interface ContentEntry {
  type: "file" | "dir";
  name: string;
  path: string;
  sha: string;
  size?: number;
  content?: string;
  encoding?: string;
  entries?: ContentEntry[];
}

export type TriggerEvent = "push" | "branchCreate" | "branchDelete" | "tag" | "tagDelete";

export interface Trigger {
  id: string;
  repositoryId: string;
  trigger: {
    event: TriggerEvent;
    branches?: string[] | null;
    tags?: string[] | null;
    globs: string[] | null;
  };
  action: {
    action: "webhook" | "vm";
    endpoint?: string;
    snapshotId?: string | null;
    command?: string;
  };
  managed: boolean;
  createdAt: string;
}

export interface Delivery {
  id: string;
  triggerId: string;
  repositoryId: string;
  action: string;
  event: TriggerEvent;
  branch: string | null;
  tag: string | null;
  /** of a deletion: the last one */
  commit: string | null;
  state: string;
  attempts: number;
  createdAt: string;
  updatedAt: string;
  nextAttemptAt: string | null;
  error: string | null;
  statusCode?: number | null;
  exitCode?: number | null;
  vmId?: string | null;
  output?: string | null;
  outcome?: string | null;
}

export interface GitSync {
  githubRepoName: string;
  url: string;
  state: string;
  lastSyncAt: string | null;
  error: string | null;
  conflicts: Array<{
    ref: string;
    local: string | null;
    remote: string | null;
    reason: string;
  }>;
  hookPath: string;
  /** of the GitHub App whose tokens it uses */
  installationId: string | null;
}

export interface GithubApp {
  id: string;
  appId: string;
  name: string;
  server: string;
  apiUrl: string;
  /** its page on GitHub */
  url: string;
  shared: boolean;
  /** of this account */
  own: boolean;
  clientId: string | null;
  webhookPath: string;
  /** it has a webhook secret */
  webhookSigned: boolean;
  lastWebhookAt: string | null;
  createdAt: string;
}

export interface GithubInstallation {
  id: string;
  /** GitHub's number */
  installationId: string;
  /** id of the App here */
  appId: string;
  /** whose repositories they are */
  login: string;
  kind: string;
  repositorySelection: string;
  suspended: boolean;
  error: string | null;
  checkedAt: string | null;
  createdAt: string;
}

export interface GithubLink {
  url: string;
  expiresAt: string;
}

export interface Credential {
  server: string;
  kind: "app" | "token";
  appId: string | null;
  installationId: string | null;
  apiUrl: string | null;
  createdAt: string;
}

export interface FileChange {
  path: string;
  content?: string;
  encoding?: "utf-8" | "base64";
  deleted?: boolean;
  executable?: boolean;
}

export interface GitPersonNew {
  name: string;
  email: string;
  date?: string;
}

export interface CommitObjectNew {
  message: string;
  tree: string;
  parents?: string[];
  author?: GitPersonNew;
  committer?: GitPersonNew;
}

export interface RepoSource {
  url: string;
  rev?: string;
  /** older name of rev */
  branch?: string;
  allBranches?: boolean;
  depth?: number;
}

export interface RepoImport {
  type: "files" | "tar" | "zip" | "git";
  url?: string;
  dir?: string;
  rev?: string;
  commitMessage?: string;
  authorName?: string;
  authorEmail?: string;
  files?: FileChange[];
}

export interface RepoNew {
  name?: string | null;
  defaultBranch?: string | null;
  public?: boolean | null;
  source?: RepoSource | null;
  import?: RepoImport | null;
}

export interface RepoVisibility {
  visibility: "public" | "private";
}

export interface RepoDefaultBranch {
  defaultBranch: string;
}

export interface BranchNew {
  name?: string | null;
  sha?: string | null;
}

export interface CommitNew {
  message: string;
  branch?: string | null;
  expectedSha?: string | null;
  files: FileChange[];
  author?: {
    name?: string;
    email?: string;
  } | null;
}

export interface TriggerNew {
  trigger: TriggerWhen;
  action: TriggerDo;
}

export interface TriggerWhen {
  event: "push" | "branchCreate" | "branchDelete" | "tag" | "tagDelete";
  /** names; * is any text */
  branches?: string[] | null;
  /** names; * is any text. For the events of tags */
  tags?: string[] | null;
  /** paths, one of which must have changed; not for deletions */
  globs?: string[] | null;
}

export interface TriggerDo {
  action: "webhook" | "vm";
  endpoint?: string | null;
  snapshotId?: string | null;
  command?: string | null;
}

export interface SyncNew {
  githubRepoName?: string | null;
  url?: string | null;
  token?: string | null;
  /** of a GitHub App; that which reaches it, if left out */
  installationId?: string | number | null;
}

export interface CredentialNew {
  server?: string | null;
  token?: string | null;
  appId?: string | null;
  installationId?: string | null;
  privateKey?: string | null;
  apiUrl?: string | null;
}

export interface GithubAppNew {
  server?: string | null;
  apiUrl?: string | null;
  appId: string;
  privateKey: string;
  webhookSecret?: string | null;
  clientId?: string | null;
  clientSecret?: string | null;
  /** the operator: for all accounts */
  shared?: boolean;
}

export interface GithubManifest {
  /** where GitHub and browsers reach this server; as this request, if left out */
  baseUrl?: string | null;
  name?: string | null;
  /** on GitHub, that the App will belong to; the user, if left out */
  organization?: string | null;
  server?: string | null;
  apiUrl?: string | null;
  /** the operator: for all accounts */
  shared?: boolean;
  /** only its owner on GitHub can install it */
  private?: boolean;
}

export interface GithubInstall {
  baseUrl?: string | null;
}

export interface GithubAdopt {
  /** id of the App here */
  appId: string;
  installationId: string | number;
}

export interface Owner {
  id: string;
  name: string;
}

export interface Session {
  account: Owner | null;
  identity: Id | null;
  operator: boolean;
  actingAs: Owner | null;
  /** to be sent as x-pando-csrf */
  csrf: string | null;
  expiresAt: string | null;
  sessionId: string | null;
}

export interface SessionItem {
  id: string;
  current: boolean;
  address: string;
  client: string;
  createdAt: string;
  lastUsedAt: string;
  expiresAt: string;
  actingAs: Owner | null;
}

export interface LoginRequest {
  code: string;
  client: string;
  address: string;
  createdAt: string;
  expiresAt: string;
  state: "pending" | "confirmed" | "denied";
}

export interface SessionOpen {
  credential: string;
}

export interface SessionAct {
  accountId: string | null;
}

export interface LoginNew {
  client?: string | null;
}

export interface LoginPoll {
  secret: string;
}

export interface StateMemory {
  givenBytes: number;
  residentBytes: number;
  privateBytes: number;
}

export interface HostMemory {
  totalBytes: number;
  freeBytes: number;
  availableBytes: number;
  privateBytes: number;
  sharedBytes: number;
  mappedBytes: number;
  cacheBytes: number;
  otherBytes: number;
  byState: Record<string, StateMemory>;
}

export interface Host {
  cpu: {
    cores: number;
    percent: number;
    load: number[];
  };
  memory: HostMemory;
  disk: {
    sizeBytes: number;
    freeBytes: number;
    mustStayFreeBytes: number;
    layerBytes: number;
    layers: number;
    budgetBytes: number;
    overBytes: number;
  };
  vms: {
    byState: Record<string, number>;
    runningMax: number;
  };
  pool: {
    ready: number;
    wanted: number;
    memoryBytes: number;
    blankProcesses: number;
    given: number;
    missed: number;
    trouble: string | null;
  };
  uptimeSeconds: number;
  version: string;
  accel: string;
  accelWhy: string | null;
  template: {
    state: string;
    note: string | null;
  };
  walls: string | null;
  notes: Array<{
    level: string;
    text: string;
    whatToDo: string;
    link: string;
  }>;
}

export interface HostSample {
  at: string;
  cpuPercent: number;
  load: number;
  running: number;
  memoryFreeBytes: number;
  memoryPrivateBytes: number;
  memorySharedBytes: number;
  memoryCacheBytes: number;
  diskFreeBytes: number;
  diskReadBytesPerSec: number;
  diskWriteBytesPerSec: number;
  netRxBytesPerSec: number;
  netTxBytesPerSec: number;
}

export interface VmSample {
  at: string;
  cpuPercent: number;
  memoryBytes: number;
  privateBytes: number;
  diskReadBytesPerSec: number;
  diskWriteBytesPerSec: number;
  netRxBytesPerSec: number;
  netTxBytesPerSec: number;
  state: VmState;
}

export interface Latency {
  count: number;
  sumSeconds: number;
  buckets: Array<{
    leSeconds: number | null;
    count: number;
  }>;
  p50: number;
  p90: number;
  p99: number;
}

export interface Certificate {
  name: string;
  source: "given" | "acme" | "local";
  notBefore: string;
  notAfter: string;
  state: "valid" | "expiring" | "expired" | "notYetValid";
}

export interface TunnelOpen {
  sessionId: string;
  clientPublicKey: string;
  gatewayVmId: string | null;
  clientTunnelIp: string;
  serverTunnelIp: string;
  listenPort: number;
  createdAt: string;
  expiresAt: string | null;
  lastHandshakeAt: string | null;
  rxBytes: number | null;
  txBytes: number | null;
}

/** What PandoError.code may be; a newer server may have more. */
export type ErrorCode =
  | "BAD_REQUEST"
  | "INVALID_REQUEST"
  | "INVALID_PARAMETERS"
  | "UNAUTHORIZED"
  | "UNAUTHORIZED_ERROR"
  | "FORBIDDEN"
  | "CROSS_SITE_REQUEST"
  | "CSRF_TOKEN_INVALID"
  | "LOGIN_REQUEST_DENIED"
  | "LOGIN_REQUEST_NOT_FOUND"
  | "LOGIN_REQUEST_EXPIRED"
  | "NOT_FOUND"
  | "CONFLICT"
  | "INTERNAL_ERROR"
  | "DATABASE_ERROR"
  | "UNAVAILABLE"
  | "NODE_NOT_FOUND"
  | "NODE_UNAVAILABLE"
  | "SERVICE_UNAVAILABLE"
  | "INVALID_VM_ID"
  | "VM_NOT_RUNNING"
  | "VM_ACCESS_DENIED"
  | "SELF_ACCESS_DENIED"
  | "SELF_INTERRUPTED"
  | "VM_NOT_FOUND"
  | "STILL_CREATING"
  | "VM_IS_SUSPENDING"
  | "VM_DELETED"
  | "CORRUPT_VM_RECORD"
  | "OBJECT_DAMAGED"
  | "CREATE_VM_BAD_REQUEST"
  | "CREATE_VM_MEM_NOT_POWER_OF_TWO"
  | "CREATE_VM_VCPU_NOT_POWER_OF_TWO"
  | "CREATE_VM_ROOTFS_OUT_OF_RANGE"
  | "CREATE_VM_MEM_OUT_OF_RANGE"
  | "CREATE_VM_VCPU_OUT_OF_RANGE"
  | "VPC_FORK_UNSUPPORTED"
  | "RESUMED_VM_NON_RESPONSIVE"
  | "VM_EXIT_DURING_START"
  | "SUSPEND_FAILED_VM_RESUMED"
  | "SUSPEND_FAILED_AND_STOPPED"
  | "VM_SETUP_FAILED"
  | "VM_START_TIMEOUT"
  | "NO_LOCAL_STORAGE_CAPACITY"
  | "INSUFFICIENT_SWAP"
  | "RESIZE_VM_MEM_NOT_POWER_OF_TWO"
  | "RESIZE_VM_VCPU_NOT_POWER_OF_TWO"
  | "RESIZE_VM_MEM_OUT_OF_RANGE"
  | "RESIZE_VM_VCPU_OUT_OF_RANGE"
  | "RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED"
  | "RESIZE_VM_EMPTY_REQUEST"
  | "RESIZE_FAILED"
  | "FORK_FAILED"
  | "ROOTFS_SIZE_TOO_LARGE"
  | "INVALID_SNAPSHOT_ID"
  | "SNAPSHOT_VM_BAD_REQUEST"
  | "CREATE_SNAPSHOT_BAD_REQUEST"
  | "CONFLICTING_SPEC_SOURCES_ERROR"
  | "NON_LEAF_LAYER_FIELD_ERROR"
  | "INVALID_GIT_REPO_SPEC_ERROR"
  | "SNAPSHOT_NOT_FOUND"
  | "NO_DEFAULT_SNAPSHOT_AVAILABLE"
  | "BUILD_NOT_FOUND"
  | "BUILD_NOT_FOUND_FOR_VM"
  | "SNAPSHOT_ALREADY_DELETED"
  | "SOURCE_SNAPSHOT_LOST"
  | "SOURCE_SNAPSHOT_BUILDING"
  | "SOURCE_SNAPSHOT_CANCELLED"
  | "SOURCE_SNAPSHOT_DELETED"
  | "SNAPSHOT_SETUP_FAILED"
  | "SNAPSHOT_LAYER_CREATION_FAILED"
  | "VALIDATION_ERROR"
  | "DUPLICATE_USER_NAME"
  | "USER_GROUP_EMPTY"
  | "USER_SYSTEM_FLAG_MISMATCH"
  | "USER_UID_OUT_OF_RANGE"
  | "USER_HOME_INVALID"
  | "USER_SHELL_INVALID"
  | "DUPLICATE_GROUP_NAME"
  | "GROUP_NAME_RESERVED"
  | "GROUP_NAME_INVALID_CHARS"
  | "GROUP_NAME_TOO_LONG"
  | "GROUP_NAME_EMPTY"
  | "USER_ALREADY_EXISTS"
  | "GROUP_ALREADY_EXISTS"
  | "MEMORY_STORAGE_QUOTA_EXCEEDED"
  | "ROOTFS_STORAGE_QUOTA_EXCEEDED"
  | "TOTAL_VM_LIMIT_EXCEEDED"
  | "VM_LIMIT_EXCEEDED"
  | "SNAPSHOT_LIMIT_EXCEEDED"
  | "LIMIT_EXCEEDED"
  | "ROOTFS_OVER_PLAN_LIMIT"
  | "MEM_OVER_PLAN_LIMIT"
  | "VCPU_OVER_PLAN_LIMIT"
  | "CANNOT_DELETE_MANAGED_IDENTITY"
  | "IDENTITY_NOT_FOUND"
  | "VM_PERMISSION_NOT_FOUND"
  | "PERMISSION_NOT_FOUND"
  | "GIT_REPOSITORY_NOT_FOUND"
  | "PERMISSION_ALREADY_EXISTS"
  | "GIT_REPO_LIMIT_EXCEEDED"
  | "UNSUPPORTED_TRANSFER"
  | "SOURCE_IMPORT_CONFLICT"
  | "SOURCE_UNAUTHORIZED"
  | "SOURCE_NOT_FOUND"
  | "IMPORT_SUBDIR_NOT_FOUND"
  | "INVALID_REVISION"
  | "INVALID_BASE64_CONTENT"
  | "INVALID_FILE_CHANGE"
  | "INVALID_FILE_PATH"
  | "AMBIGUOUS"
  | "INVALID_RANGE"
  | "OFFSET_WITH_SELECTOR"
  | "COMMIT_NOT_IN_BRANCH"
  | "INVALID_OBJECT_ID"
  | "EMPTY_TAG"
  | "GIT_INVALID_REQUEST"
  | "BRANCH_NAME_EMPTY"
  | "INVALID_SERVICE"
  | "EXPECTED_SERVICE"
  | "REPOSITORY_ACCESS_DENIED"
  | "TAG_NOT_FOUND"
  | "COMMIT_NOT_FOUND"
  | "BLOB_NOT_FOUND"
  | "TREE_NOT_FOUND"
  | "BRANCH_NOT_FOUND"
  | "PARENT_NOT_FOUND"
  | "NO_DEFAULT_BRANCH"
  | "PATH_NOT_FOUND"
  | "REFERENCE_NOT_FOUND"
  | "CONTENT_NOT_FOUND"
  | "REPOSITORY_NOT_FOUND"
  | "CONFLICTING_PARENT"
  | "BRANCH_ALREADY_EXISTS"
  | "GIT_TOO_LARGE"
  | "GIT_ERROR"
  | "GET_CONTENT_FAILED"
  | "GIT_SERVER_ERROR"
  | "UPDATE_DEFAULT_BRANCH_FAILED"
  | "GIT_HUB_SYNC_FAILED"
  | "DIFF_INVALID_PATH_PATTERN"
  | "DIFF_INVALID_REGEX"
  | "DIFF_EMPTY_QUERY"
  | "COMMIT_INVALID_REGEX"
  | "COMMIT_EMPTY_QUERY"
  | "FILENAME_INVALID_PATTERN"
  | "FILENAME_EMPTY_QUERY"
  | "INVALID_REGEX"
  | "INVALID_PATH_PATTERN"
  | "EMPTY_QUERY"
  | "FILES_BAD_REQUEST"
  | "FILE_NOT_FOUND"
  | "EXEC_TIMED_OUT"
  | "USER_NOT_FOUND"
  | "INVALID_SESSION_ID"
  | "SESSION_USER_MISMATCH"
  | "SESSION_NOT_FOUND"
  | "SESSION_ALREADY_EXISTS"
  | "SESSION_EXPIRED"
  | "SESSION_CAP_REACHED"
  | "WANTED_BY_EMPTY"
  | "WORKDIR_EMPTY"
  | "GROUP_EMPTY"
  | "USER_EMPTY"
  | "ON_FAILURE_ARRAY_CONTAINS_EMPTY"
  | "REQUIRES_ARRAY_CONTAINS_EMPTY"
  | "AFTER_ARRAY_CONTAINS_EMPTY"
  | "ENV_KEY_CONTAINS_EQUALS"
  | "ENV_KEY_EMPTY"
  | "EXEC_EMPTY"
  | "SERVICE_NAME_TOO_LONG"
  | "SERVICE_NAME_INVALID_PREFIX"
  | "SERVICE_NAME_INVALID_CHARS"
  | "SERVICE_NAME_EMPTY"
  | "SERVICE_NOT_FOUND"
  | "SERVICE_ALREADY_EXISTS"
  | "DOMAIN_ALREADY_EXISTS"
  | "INVALID_DOMAIN"
  | "INVALID_DOMAINS"
  | "DOMAIN_OWNERSHIP_NOT_VERIFIED"
  | "DOMAIN_OWNERSHIP_VERIFICATION_FAILED"
  | "NO_DOMAIN_OWNERSHIP"
  | "VERIFICATION_NOT_FOUND"
  | "FAILED_TO_PROVISION_CERTIFICATE"
  | "FAILED_TO_VERIFY_DOMAIN"
  | "DOMAIN_OWNERSHIP_ERROR"
  | "RECORD_OWNERSHIP_ERROR"
  | "EXECUTION_ERROR"
  | "NODE_MODULES_INSTALL_FAILED"
  | "RUN_NOT_FOUND"
  | "SCHEDULE_NOT_FOUND"
  | "DEPLOYMENT_NOT_FOUND"
  | "DEPLOYMENT_FAILED"
  | "DEPLOYMENT_BUSY"
  | "DEPLOYMENT_LIMIT_EXCEEDED"
  | "INVALID_DEPLOYMENT_REQUEST"
  | "NO_ENTRYPOINT_FOUND"
  | "ENTRYPOINT_NOT_FOUND"
  | "TIMEOUT_LIMIT_EXCEEDED"
  | "INVALID_QUERY"
  | "DOMAIN_NOT_MAPPED"
  | "NOTHING_LISTENS"
  | "BAD_ANSWER"
  | "CONNECTION_CLOSED"
  | "VM_STARTING"
  | "UPSTREAM_TIMEOUT"
  | "MISDIRECTED"
  | "LOOP_DETECTED";

/** Every call of the API. Arguments of path, query and header are members of the first argument, as is 'body'. */
export interface Calls {
  /** GET /v1/health: State of the server: version, accelerator, template */
  health(args?: Record<string, never>, options?: CallOptions): Promise<{
    status: string;
    version: string;
    accel: string;
    accelWhy: string | null;
    template: {
      state: string;
      note: string | null;
    };
    qemuVersion: string | null;
    limits: string;
    running: number;
    defaultVm: VmSizing;
    pool: {
      ready: number;
      memoryMb: number;
      given: number;
      missed: number;
      processes: number;
      seed: "off" | "making" | "ready";
      forked: number;
      budgetMb: number;
      wanted: number;
      processesWanted: number;
      seeds: number;
      seedsWanted: number;
      processesMemoryMb: number;
      seedsMemoryMb: number;
    };
    ssh: {
      listen: string;
      connections: number;
      channels: number;
    } | null;
    edge: {
      running: boolean;
      starts: number;
      open: number;
      connections: number;
      requests: number;
      refused: number;
      woken: number;
      accessLinesLost: number;
    } | null;
    sizes: Array<{
      vcpuCount: number;
      memSizeMib: number;
      state: string;
      ahead: boolean;
      diskMb: number;
      note: string | null;
    }>;
    objects: {
      state: string;
      pending: number;
      pendingMb: number;
      garbage: number;
      cacheMb: number;
    } | null;
    walls: string | null;
  }>;
  /** GET /openapi.json: This description of the API */
  openapi(args?: {
    ifNoneMatch?: string;
  }, options?: CallOptions): Promise<{
    openapi: string;
    info: {
      title: string;
      version: string;
      [member: string]: unknown;
    };
    paths: Record<string, unknown>;
    components: Record<string, unknown>;
    [member: string]: unknown;
  }>;
  /** GET /healthz: The process answers */
  healthz(args?: Record<string, never>, options?: CallOptions): Promise<{
    status: string;
  }>;
  /** GET /readyz: VMs can be created; 503 with the reasons if not */
  readyz(args?: Record<string, never>, options?: CallOptions): Promise<{
    status: string;
  }>;
  /** GET /metrics: Metrics as Prometheus' text, or OpenMetrics */
  metrics(args?: {
    /** application/openmetrics-text for OpenMetrics */
    accept?: string;
  }, options?: CallOptions): Promise<string>;
  /** GET /v1/host: Load, memory, disk, VMs and pool of the host, and what is wrong */
  host(args?: Record<string, never>, options?: CallOptions): Promise<Host>;
  /** GET /v1/host/history: The last hour of the host */
  hostHistory(args?: Record<string, never>, options?: CallOptions): Promise<{
    intervalSeconds: number;
    samples: HostSample[];
  }>;
  /** GET /v1/host/latency: How long creates, forks, resumes and other operations took since the server started */
  hostLatency(args?: Record<string, never>, options?: CallOptions): Promise<{
    verbs: Record<string, Latency>;
  }>;
  /** GET /v1/cluster: The machines that share this server's database, with health and load */
  cluster(args?: Record<string, never>, options?: CallOptions): Promise<{
    /** false: this server is by itself */
    shared: boolean;
    nodes: Node[];
    lease: {
      leftMs: number;
      renewals: number;
      failed: number;
    };
    takenOver: {
      nodes: number;
      lostVms: number;
    };
  }>;
  /** POST /v1/cluster/nodes/{node}/drain: Suspend a node's VMs and give it no new ones, or end that */
  nodeDrain(args: {
    node: string;
    body: NodeDrain;
  }, options?: CallOptions): Promise<{
    id: string;
    draining: boolean;
  }>;
  /** DELETE /v1/cluster/nodes/{node}: Forget a node that is gone for good */
  nodeRemove(args: {
    node: string;
    /** together with the VMs and snapshots that are not in the object store */
    lose?: boolean;
  }, options?: CallOptions): Promise<Id>;
  /** GET /auth/v1/whoami: The account, and the identity, behind the key or token */
  whoami(args?: Record<string, never>, options?: CallOptions): Promise<{
    accountId: string;
    identityId: string | null;
  }>;
  /** GET /auth/v1/background-requests/{request_id}: Result of a background request; 202 while it is running. The reply is the one that the request itself would have had. */
  backgroundGet(args: {
    requestId: string;
  }, options?: CallOptions): Promise<VmCreated | SnapshotBuilt | {
    requestId: string;
    status: string;
  }>;
  /** GET /observability/v1/logs: Logs of VMs, builds and requests */
  logs(args?: {
    vmId?: string;
    buildId?: string;
    requestId?: string;
    vmService?: string;
    resourceType?: string;
    instanceId?: string;
    deploymentId?: string;
    runId?: string;
    /** requests by name */
    domain?: string;
    source?: string;
    search?: string;
    startTime?: string;
    endTime?: string;
    pageSize?: number;
    pageToken?: string;
  }, options?: CallOptions): Promise<{
    logs: LogLine[];
    nextPageToken: string | null;
  }>;
  /** POST /v1/session: Sign in with a browser: credential (API key or access token) becomes a cookie */
  sessionOpen(args: {
    body: SessionOpen;
  }, options?: CallOptions): Promise<Session>;
  /** GET /v1/session: Who is signed in, until when, and the token for x-pando-csrf */
  sessionGet(args?: Record<string, never>, options?: CallOptions): Promise<Session>;
  /** DELETE /v1/session: Sign out */
  sessionEnd(args?: Record<string, never>, options?: CallOptions): Promise<{
    sessionId: string;
  }>;
  /** PUT /v1/session/account: The operator acts as another account, or with null as the own one again */
  sessionAct(args: {
    body: SessionAct;
  }, options?: CallOptions): Promise<Session>;
  /** GET /v1/sessions: List the web sessions of the account's keys, or of the identity */
  sessionList(args?: Record<string, never>, options?: CallOptions): Promise<{
    sessions: SessionItem[];
  }>;
  /** DELETE /v1/sessions: Sign out everywhere: end all of these sessions */
  sessionEndAll(args?: Record<string, never>, options?: CallOptions): Promise<{
    ended: number;
  }>;
  /** DELETE /v1/sessions/{session_id}: End one of these sessions */
  sessionEndOne(args: {
    sessionId: string;
  }, options?: CallOptions): Promise<{
    sessionId: string;
  }>;
  /** POST /v1/login-requests: Ask for an API key that a person confirms in the dashboard */
  loginBegin(args: {
    body: LoginNew;
  }, options?: CallOptions): Promise<{
    id: string;
    /** shown to the person */
    code: string;
    /** for poll */
    secret: string;
    url: string;
    expiresAt: string;
    intervalSeconds: number;
  }>;
  /** POST /v1/login-requests/{login_id}/poll: The API key, once, when it was confirmed; 202 before */
  loginPoll(args: {
    loginId: string;
    body: LoginPoll;
  }, options?: CallOptions): Promise<{
    apiKey: string;
    accountId: string;
    keyId: string;
  } | {
    state: string;
  }>;
  /** GET /v1/login-requests/by-code/{code}: What asks for a key, from where and since when; with a session */
  loginGet(args: {
    code: string;
  }, options?: CallOptions): Promise<LoginRequest>;
  /** POST /v1/login-requests/by-code/{code}/confirm: Give it a key of this account; with a session */
  loginConfirm(args: {
    code: string;
  }, options?: CallOptions): Promise<LoginRequest>;
  /** POST /v1/login-requests/by-code/{code}/deny: Give it none; with a session */
  loginDeny(args: {
    code: string;
  }, options?: CallOptions): Promise<LoginRequest>;
  /** GET /v1/events: Follow what happens, as server-sent events */
  events(args?: {
    /** what came after this id */
    after?: string;
    /** separated by commas; vm.* stands for several */
    types?: string;
    follow?: boolean;
    lastEventID?: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/accounts: Create an account */
  accountCreate(args: {
    body: AccountNew;
  }, options?: CallOptions): Promise<Account>;
  /** GET /v1/accounts: List accounts */
  accountList(args?: Record<string, never>, options?: CallOptions): Promise<{
    accounts: Account[];
  }>;
  /** GET /v1/accounts/{account_id}: Get an account with its limits and usage */
  accountGet(args: {
    /** Id of the account */
    accountId: string;
  }, options?: CallOptions): Promise<Account>;
  /** PATCH /v1/accounts/{account_id}: Change name and quotas of an account */
  accountUpdate(args: {
    /** Id of the account */
    accountId: string;
    body: AccountNew;
  }, options?: CallOptions): Promise<Account>;
  /** DELETE /v1/accounts/{account_id}: Delete an account that has no VMs or snapshots */
  accountDelete(args: {
    /** Id of the account */
    accountId: string;
  }, options?: CallOptions): Promise<Id>;
  /** POST /v1/keys: Create an API key, shown once */
  keyCreate(args: {
    /** the operator: of another account */
    accountId?: string;
    body: KeyNew;
  }, options?: CallOptions): Promise<Key & {
    accountId: string;
    /** the secret, shown once */
    key: string;
  }>;
  /** GET /v1/keys: List API keys without their secrets */
  keyList(args?: {
    /** the operator: of another account */
    accountId?: string;
  }, options?: CallOptions): Promise<{
    accountId: string;
    keys: Key[];
  }>;
  /** DELETE /v1/keys/{key_id}: Revoke an API key at once */
  keyRevoke(args: {
    keyId: string;
    /** the operator: of another account */
    accountId?: string;
  }, options?: CallOptions): Promise<Id>;
  /** POST /v1/backups: Prepare a backup on the server's disk; running VMs are frozen and go on */
  backupBegin(args?: Record<string, never>, options?: CallOptions): Promise<{
    id: string;
    path: string;
    dataDir: string;
    keyFile: string;
    /** VMs */
    frozen: number;
    notes: Array<{
      id: string;
      text: string;
    }>;
  }>;
  /** DELETE /v1/backups/{backup_id}: Remove what a backup prepared */
  backupEnd(args: {
    backupId: string;
  }, options?: CallOptions): Promise<Id>;
  /** POST /v1/secrets/rotate: Seal all secrets of the server with a new key */
  secretsRotate(args?: Record<string, never>, options?: CallOptions): Promise<{
    keyId: number;
  }>;
  /** GET /v1/audit: Read the audit log */
  audit(args?: {
    limit?: number;
    /** records older than this id */
    before?: number;
    /** records newer than this id */
    after?: number;
    action?: string;
    target?: string;
    /** the operator: of another account */
    accountId?: string;
  }, options?: CallOptions): Promise<{
    records: AuditRecord[];
  }>;
  /** POST /v1/webhooks: Create a webhook for events of VMs, snapshots and builds */
  webhookCreate(args: {
    body: WebhookNew;
  }, options?: CallOptions): Promise<Webhook>;
  /** GET /v1/webhooks: List webhooks */
  webhookList(args?: Record<string, never>, options?: CallOptions): Promise<{
    webhooks: Webhook[];
  }>;
  /** GET /v1/webhooks/{webhook}: Get a webhook */
  webhookGet(args: {
    webhook: string;
  }, options?: CallOptions): Promise<Webhook>;
  /** PATCH /v1/webhooks/{webhook}: Change a webhook */
  webhookChange(args: {
    webhook: string;
    body: WebhookNew;
  }, options?: CallOptions): Promise<Webhook>;
  /** DELETE /v1/webhooks/{webhook}: Delete a webhook with its deliveries */
  webhookDelete(args: {
    webhook: string;
  }, options?: CallOptions): Promise<Id>;
  /** POST /v1/webhooks/{webhook}/test: Send an event of the type test */
  webhookTest(args: {
    webhook: string;
  }, options?: CallOptions): Promise<WebhookDelivery>;
  /** GET /v1/webhooks/{webhook}/deliveries: Deliveries of a webhook, newest first */
  webhookDeliveries(args: {
    webhook: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    deliveries: WebhookDelivery[];
  }>;
  /** GET /v1/webhooks/{webhook}/deliveries/{delivery}: A delivery with its event */
  webhookDelivery(args: {
    webhook: string;
    delivery: string;
  }, options?: CallOptions): Promise<WebhookDelivery>;
  /** POST /v1/webhooks/{webhook}/deliveries/{delivery}/redeliver: Deliver an event again */
  webhookRedeliver(args: {
    webhook: string;
    delivery: string;
  }, options?: CallOptions): Promise<WebhookDelivery>;
  /** GET /identity/v1/identities: List identities */
  identityList(args?: {
    limit?: number;
    offset?: number;
    includeManaged?: boolean;
  }, options?: CallOptions): Promise<{
    identities: Identity[];
    offset: number;
    total: number;
  }>;
  /** POST /identity/v1/identities: Create an identity */
  identityCreate(args?: Record<string, never>, options?: CallOptions): Promise<Identity>;
  /** DELETE /identity/v1/identities/{identity}: Delete an identity with its tokens and permissions */
  identityDelete(args: {
    /** Id of the identity */
    identity: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /identity/v1/identities/{identity}/tokens: List tokens by id */
  tokenList(args: {
    /** Id of the identity */
    identity: string;
  }, options?: CallOptions): Promise<{
    tokens: Array<{
      id: string;
      createdAt: string;
    }>;
  }>;
  /** POST /identity/v1/identities/{identity}/tokens: Create an access token, shown once */
  tokenCreate(args: {
    /** Id of the identity */
    identity: string;
  }, options?: CallOptions): Promise<{
    id: string;
    /** shown once */
    token: string;
  }>;
  /** DELETE /identity/v1/identities/{identity}/tokens/{token_id}: Revoke a token at once */
  tokenRevoke(args: {
    /** Id of the identity */
    identity: string;
    tokenId: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /identity/v1/identities/{identity}/permissions/vm: List the VMs an identity may use */
  vmPermList(args: {
    /** Id of the identity */
    identity: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    permissions: VmPermission[];
    offset: number;
    total: number;
  }>;
  /** GET /identity/v1/identities/{identity}/permissions/vm/{vm_id}: Get a permission */
  vmPermGet(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<VmPermission>;
  /** POST /identity/v1/identities/{identity}/permissions/vm/{vm_id}: Let an identity use a VM */
  vmPermGrant(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the VM */
    vmId: string;
    body: VmPermissionNew;
  }, options?: CallOptions): Promise<VmPermission>;
  /** PUT /identity/v1/identities/{identity}/permissions/vm/{vm_id}: Change the Linux users of a permission */
  vmPermUpdate(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the VM */
    vmId: string;
    body: VmPermissionNew;
  }, options?: CallOptions): Promise<VmPermission>;
  /** DELETE /identity/v1/identities/{identity}/permissions/vm/{vm_id}: Revoke a permission at once */
  vmPermRevoke(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /identity/v1/identities/{identity}/permissions/git: List the repositories an identity may use */
  gitPermList(args: {
    /** Id of the identity */
    identity: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    repositories: Array<{
      id: string;
      name: string | null;
      accountId: string;
      permissions: "read" | "write";
      visibility: "public" | "private";
    }>;
  }>;
  /** GET /identity/v1/identities/{identity}/permissions/git/{repo_id}: Get a permission on a repository */
  gitPermGet(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the repository */
    repoId: string;
  }, options?: CallOptions): Promise<GitPermission>;
  /** POST /identity/v1/identities/{identity}/permissions/git/{repo_id}: Let an identity use a repository */
  gitPermGrant(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the repository */
    repoId: string;
    body: GitPermissionNew;
  }, options?: CallOptions): Promise<Empty>;
  /** PUT /identity/v1/identities/{identity}/permissions/git/{repo_id}: Change a permission on a repository */
  gitPermUpdate(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the repository */
    repoId: string;
    body: GitPermissionNew;
  }, options?: CallOptions): Promise<Empty>;
  /** DELETE /identity/v1/identities/{identity}/permissions/git/{repo_id}: Revoke a permission on a repository */
  gitPermRevoke(args: {
    /** Id of the identity */
    identity: string;
    /** Id of the repository */
    repoId: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /git/v1/repo: Create a repository */
  repoCreate(args: {
    body: RepoNew;
  }, options?: CallOptions): Promise<{
    repoId: string;
  }>;
  /** GET /git/v1/repo: List repositories */
  repoList(args?: {
    limit?: number;
    offset?: number;
    search?: string;
  }, options?: CallOptions): Promise<{
    repositories: RepositoryItem[];
    total: number;
    offset: number;
  }>;
  /** GET /git/v1/repo/{repo}: Get a repository */
  repoGet(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<Repository>;
  /** DELETE /git/v1/repo/{repo}: Delete a repository with its contents */
  repoDelete(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/repo/{repo}/visibility: Get the visibility */
  repoVisibility(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<{
    visibility: "public" | "private";
  }>;
  /** PUT /git/v1/repo/{repo}/visibility: Make a repository public or private */
  repoSetVisibility(args: {
    /** Id of the repository */
    repo: string;
    body: RepoVisibility;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/repo/{repo}/default-branch: Get the default branch */
  repoDefaultBranch(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<{
    defaultBranch: string;
  }>;
  /** PUT /git/v1/repo/{repo}/default-branch: Change the default branch */
  repoSetDefaultBranch(args: {
    /** Id of the repository */
    repo: string;
    body: RepoDefaultBranch;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/repo/{repo}/contents: The root directory */
  repoRoot(args: {
    /** Id of the repository */
    repo: string;
    /** branch, tag or commit; the default branch if left out */
    rev?: string;
    /** older name of rev */
    ref?: string;
    recursive?: boolean;
  }, options?: CallOptions): Promise<ContentEntry>;
  /** GET /git/v1/repo/{repo}/contents/{path}: A file with its bytes, or a directory */
  repoContents(args: {
    /** Id of the repository */
    repo: string;
    /** Path of the file or directory; with slashes in it */
    path: string;
    /** branch, tag or commit; the default branch if left out */
    rev?: string;
    /** older name of rev */
    ref?: string;
    recursive?: boolean;
  }, options?: CallOptions): Promise<ContentEntry>;
  /** GET /git/v1/repo/{repo}/tarball: A revision's files as a tar archive */
  repoTarball(args: {
    /** Id of the repository */
    repo: string;
    /** branch, tag or commit; the default branch if left out */
    rev?: string;
    /** older name of rev */
    ref?: string;
  }, options?: CallOptions): Promise<Response>;
  /** GET /git/v1/repo/{repo}/zip: A revision's files as a zip archive */
  repoZip(args: {
    /** Id of the repository */
    repo: string;
    /** branch, tag or commit; the default branch if left out */
    rev?: string;
    /** older name of rev */
    ref?: string;
  }, options?: CallOptions): Promise<Response>;
  /** GET /git/v1/repo/{repo}/git/refs/heads/{branch}: Get a branch */
  repoBranch(args: {
    /** Id of the repository */
    repo: string;
    branch: string;
  }, options?: CallOptions): Promise<Branch>;
  /** POST /git/v1/repo/{repo}/git/refs/heads/{branch}: Create a branch of that name */
  repoBranchPost(args: {
    /** Id of the repository */
    repo: string;
    branch: string;
    body: BranchNew;
  }, options?: CallOptions): Promise<Branch>;
  /** GET /git/v1/repo/{repo}/branches: List branches */
  repoBranches(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<{
    branches: Array<{
      name: string;
      commit: string | null;
    }>;
  }>;
  /** POST /git/v1/repo/{repo}/branches: Create a branch */
  repoBranchCreate(args: {
    /** Id of the repository */
    repo: string;
    body: BranchNew;
  }, options?: CallOptions): Promise<Branch>;
  /** GET /git/v1/repo/{repo}/git/refs/tags: List tags */
  repoTags(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<{
    tags: GitTag[];
  }>;
  /** GET /git/v1/repo/{repo}/git/refs/tags/{tag}: Get a tag by name */
  repoTag(args: {
    /** Id of the repository */
    repo: string;
    tag: string;
  }, options?: CallOptions): Promise<GitTag>;
  /** GET /git/v1/repo/{repo}/git/tags/{hash}: Get an annotated tag by hash */
  repoTagObject(args: {
    /** Id of the repository */
    repo: string;
    /** Hash of the object, or enough of its first digits */
    hash: string;
  }, options?: CallOptions): Promise<GitTag>;
  /** GET /git/v1/repo/{repo}/git/blobs/{hash}: Get a blob in base64 */
  repoBlob(args: {
    /** Id of the repository */
    repo: string;
    /** Hash of the object, or enough of its first digits */
    hash: string;
  }, options?: CallOptions): Promise<{
    content: string;
    encoding: "base64";
    sha: string;
    size: number;
  }>;
  /** GET /git/v1/repo/{repo}/git/trees/{hash}: Get a tree */
  repoTree(args: {
    /** Id of the repository */
    repo: string;
    /** Hash of the object, or enough of its first digits */
    hash: string;
  }, options?: CallOptions): Promise<{
    sha: string;
    tree: Array<{
      type: "tree" | "blob";
      path: string;
      sha: string;
      size?: number;
    }>;
  }>;
  /** GET /git/v1/repo/{repo}/git/commits: Commits of a branch */
  repoCommits(args: {
    /** Id of the repository */
    repo: string;
    branch?: string;
    limit?: number;
    offset?: number;
    order?: "asc" | "desc";
    since?: string;
    until?: string;
    disableTotalCount?: boolean;
  }, options?: CallOptions): Promise<{
    commits: Commit[];
    count: number;
    limit: number;
    order: "asc" | "desc";
    offset: number | null;
    total: number | null;
    selector: {
      Range: {
        since: string;
        until: string;
      };
    } | {
      Since: {
        since: string;
      };
    } | {
      Until: {
        until: string;
      };
    } | null;
    next_commit: string | null;
  }>;
  /** POST /git/v1/repo/{repo}/git/commits: Create a commit object from a tree and parents; no branch moves */
  repoCommitObject(args: {
    /** Id of the repository */
    repo: string;
    body: CommitObjectNew;
  }, options?: CallOptions): Promise<{
    commit: Commit;
  }>;
  /** GET /git/v1/repo/{repo}/git/commits/{hash}: Get a commit */
  repoCommit(args: {
    /** Id of the repository */
    repo: string;
    /** Hash of the object, or enough of its first digits */
    hash: string;
  }, options?: CallOptions): Promise<Commit>;
  /** POST /git/v1/repo/{repo}/commits: Commit changes to files */
  repoCommitCreate(args: {
    /** Id of the repository */
    repo: string;
    body: CommitNew;
  }, options?: CallOptions): Promise<{
    commit: Commit;
  }>;
  /** GET /git/v1/repo/{repo}/compare: How two revisions relate and which files differ */
  repoCompare(args: {
    /** Id of the repository */
    repo: string;
    base: string;
    head: string;
  }, options?: CallOptions): Promise<{
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
  /** GET /git/v1/repo/{repo}/search: Search in files */
  repoSearch(args: {
    /** Id of the repository */
    repo: string;
    query: string;
    rev?: string;
    /** older name of rev */
    ref?: string;
    pathPattern?: string;
    excludePattern?: string;
    maxResults?: number;
    offset?: number;
    contextLines?: number;
    caseSensitive?: boolean;
    isRegex?: boolean;
    wholeWord?: boolean;
  }, options?: CallOptions): Promise<{
    totalFiles: number;
    totalMatches: number;
    hasMore: boolean;
    files: Array<FoundFile & {
      matches: FoundLine[];
    }>;
  }>;
  /** GET /git/v1/repo/{repo}/search/files: Search the names of files */
  repoSearchFiles(args: {
    /** Id of the repository */
    repo: string;
    query: string;
    rev?: string;
    /** older name of rev */
    ref?: string;
    pathPattern?: string;
    excludePattern?: string;
    maxResults?: number;
    offset?: number;
    contextLines?: number;
    caseSensitive?: boolean;
    isRegex?: boolean;
    wholeWord?: boolean;
  }, options?: CallOptions): Promise<{
    totalFiles: number;
    hasMore: boolean;
    files: FoundFile[];
  }>;
  /** GET /git/v1/repo/{repo}/search/commits: Search commit messages */
  repoSearchCommits(args: {
    /** Id of the repository */
    repo: string;
    query: string;
    rev?: string;
    /** older name of rev */
    ref?: string;
    pathPattern?: string;
    excludePattern?: string;
    maxResults?: number;
    offset?: number;
    contextLines?: number;
    caseSensitive?: boolean;
    isRegex?: boolean;
    wholeWord?: boolean;
  }, options?: CallOptions): Promise<{
    totalCommits: number;
    hasMore: boolean;
    commits: Array<FoundCommit & {
      fullMessage: string;
    }>;
  }>;
  /** GET /git/v1/repo/{repo}/search/diffs: Search what commits added and removed */
  repoSearchDiffs(args: {
    /** Id of the repository */
    repo: string;
    query: string;
    rev?: string;
    /** older name of rev */
    ref?: string;
    pathPattern?: string;
    excludePattern?: string;
    maxResults?: number;
    offset?: number;
    contextLines?: number;
    caseSensitive?: boolean;
    isRegex?: boolean;
    wholeWord?: boolean;
  }, options?: CallOptions): Promise<{
    totalCommits: number;
    hasMore: boolean;
    commits: Array<FoundCommit & ({
      files: Array<{
        path: string | null;
        matches: Array<{
          line: string;
          lineNumber: number;
          startColumn: number;
          endColumn: number;
          isAddition: boolean;
        }>;
      }>;
    })>;
  }>;
  /** GET /git/v1/repo/{repo}/trigger: List triggers */
  triggerList(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<{
    triggers: Trigger[];
  }>;
  /** POST /git/v1/repo/{repo}/trigger: Create a trigger for pushes, branches or tags: a webhook, or a command in a VM */
  triggerCreate(args: {
    /** Id of the repository */
    repo: string;
    body: TriggerNew;
  }, options?: CallOptions): Promise<{
    triggerId: string;
  }>;
  /** GET /git/v1/repo/{repo}/trigger/{trigger}: Get a trigger */
  triggerGet(args: {
    /** Id of the repository */
    repo: string;
    trigger: string;
  }, options?: CallOptions): Promise<Trigger>;
  /** DELETE /git/v1/repo/{repo}/trigger/{trigger}: Delete a trigger with its deliveries */
  triggerDelete(args: {
    /** Id of the repository */
    repo: string;
    trigger: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/repo/{repo}/trigger/{trigger}/deliveries: List deliveries, newest first */
  deliveryList(args: {
    /** Id of the repository */
    repo: string;
    trigger: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    deliveries: Delivery[];
  }>;
  /** GET /git/v1/repo/{repo}/trigger/{trigger}/deliveries/{delivery}: Get a delivery; for a command, with its output */
  deliveryGet(args: {
    /** Id of the repository */
    repo: string;
    trigger: string;
    delivery: string;
  }, options?: CallOptions): Promise<Delivery>;
  /** POST /git/v1/repo/{repo}/trigger/{trigger}/deliveries/{delivery}/redeliver: Repeat a delivery */
  deliveryAgain(args: {
    /** Id of the repository */
    repo: string;
    trigger: string;
    delivery: string;
  }, options?: CallOptions): Promise<Delivery>;
  /** GET /git/v1/repo/{repo}/git/commits/{hash}/status: Status of a commit, from the commands of triggers */
  commitStatus(args: {
    /** Id of the repository */
    repo: string;
    /** Hash of the object, or enough of its first digits */
    hash: string;
  }, options?: CallOptions): Promise<{
    commit: string;
    state: string | null;
    runs: Delivery[];
  }>;
  /** GET /git/v1/repo/{repo}/github-sync: Configuration and state of the mirror; null when there is none */
  syncGet(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<GitSync | null>;
  /** POST /git/v1/repo/{repo}/github-sync: Mirror another repository both ways */
  syncEnable(args: {
    /** Id of the repository */
    repo: string;
    body: SyncNew;
  }, options?: CallOptions): Promise<Empty>;
  /** DELETE /git/v1/repo/{repo}/github-sync: Stop mirroring */
  syncDisable(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /git/v1/repo/{repo}/github-sync/run: Sync now */
  syncRun(args: {
    /** Id of the repository */
    repo: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /git/v1/sync-hook/{hook}: For the other server's webhook: sync now */
  syncHook(args: {
    hook: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/github/apps: List the account's GitHub Apps and the shared ones, without their secrets */
  githubApps(args?: Record<string, never>, options?: CallOptions): Promise<{
    apps: GithubApp[];
  }>;
  /** POST /git/v1/github/apps: Add a GitHub App that exists; GitHub is asked whether the values are right */
  githubAppAdd(args: {
    body: GithubAppNew;
  }, options?: CallOptions): Promise<GithubApp>;
  /** POST /git/v1/github/apps/manifest: A link with which a browser makes a new GitHub App for this account; valid for an hour */
  githubManifest(args: {
    body: GithubManifest;
  }, options?: CallOptions): Promise<GithubLink>;
  /** DELETE /git/v1/github/apps/{app}: Forget a GitHub App with its installations; on GitHub it stays */
  githubAppDelete(args: {
    app: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /git/v1/github/apps/{app}/install: A link with which a browser installs the App for this account, once; valid for a week */
  githubInstall(args: {
    app: string;
    body: GithubInstall;
  }, options?: CallOptions): Promise<GithubLink>;
  /** GET /git/v1/github/installations: List the account's installations */
  githubInstallations(args?: Record<string, never>, options?: CallOptions): Promise<{
    installations: GithubInstallation[];
  }>;
  /** POST /git/v1/github/installations: Add an installation of the account's own App that was made without a link */
  githubAdopt(args: {
    body: GithubAdopt;
  }, options?: CallOptions): Promise<GithubInstallation>;
  /** GET /git/v1/github/installations/{installation}/repositories: Repositories that an installation reaches */
  githubRepositories(args: {
    installation: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    repositories: string[];
  }>;
  /** POST /git/v1/github/installations/{installation}/refresh: Ask GitHub soon what the installation is now, as its webhook does */
  githubRefresh(args: {
    installation: string;
  }, options?: CallOptions): Promise<Empty>;
  /** DELETE /git/v1/github/installations/{installation}: Forget an installation; with uninstall, on GitHub too */
  githubForget(args: {
    installation: string;
    uninstall?: boolean;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /git/v1/github/webhook/{app}: For GitHub: the App's webhook, with X-Hub-Signature-256 */
  githubWebhook(args: {
    app: string;
    body: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /git/v1/credentials: List credentials for other Git servers, without their secrets */
  credentialList(args?: Record<string, never>, options?: CallOptions): Promise<{
    credentials: Credential[];
  }>;
  /** PUT /git/v1/credentials: Set the credential for a server: a token, or a GitHub App */
  credentialPut(args: {
    body: CredentialNew;
  }, options?: CallOptions): Promise<Credential>;
  /** DELETE /git/v1/credentials: Remove the credential for a server */
  credentialDelete(args: {
    server: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /.well-known/jwks.json: Public keys of webhook signatures */
  jwks(args?: Record<string, never>, options?: CallOptions): Promise<{
    keys: Array<{
      kty: string;
      crv: string;
      x: string;
      kid: string;
      alg: string;
      use: string;
    }>;
  }>;
  /** POST /git/v1/signing-keys: Sign webhooks with a new key; the old one stays published for a week */
  signingRotate(args?: Record<string, never>, options?: CallOptions): Promise<{
    kid: string;
  }>;
  /** GET /{repo}/info/refs: Git: list references */
  gitInfoRefs(args: {
    /** Id of the repository */
    repo: string;
    service: "git-upload-pack" | "git-receive-pack";
  }, options?: CallOptions): Promise<Response>;
  /** POST /{repo}/git-upload-pack: Git: fetch */
  gitUploadPack(args: {
    /** Id of the repository */
    repo: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** POST /{repo}/git-receive-pack: Git: push */
  gitReceivePack(args: {
    /** Id of the repository */
    repo: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** POST /{repo}/info/lfs/objects/batch: Git LFS: where large files are */
  lfsBatch(args: {
    /** Id of the repository */
    repo: string;
    body: string;
  }, options?: CallOptions): Promise<{
    transfer: string;
    objects: Array<{
      oid: string;
      size: number;
      authenticated?: boolean;
      actions?: {
        upload?: LfsAction;
        download?: LfsAction;
      };
      error?: {
        code: number;
        message: string;
      };
    }>;
    hash_algo: string;
  }>;
  /** GET /{repo}/info/lfs/objects/{oid}: Git LFS: a large file */
  lfsGet(args: {
    /** Id of the repository */
    repo: string;
    oid: string;
  }, options?: CallOptions): Promise<Response>;
  /** PUT /{repo}/info/lfs/objects/{oid}: Git LFS: upload a large file */
  lfsPut(args: {
    /** Id of the repository */
    repo: string;
    oid: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /domains/v1/domains: List verified domains */
  domainList(args?: {
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<Domain[]>;
  /** GET /domains/v1/verifications: List pending verifications */
  verificationList(args?: Record<string, never>, options?: CallOptions): Promise<Verification[]>;
  /** POST /domains/v1/verifications: Begin to verify a domain; the reply says which TXT record to add */
  verificationCreate(args: {
    body: VerificationWish;
  }, options?: CallOptions): Promise<Verification>;
  /** PUT /domains/v1/verifications: Check the TXT record and complete a verification */
  verificationComplete(args: {
    body: VerificationWish;
  }, options?: CallOptions): Promise<{
    domain: string;
  }>;
  /** DELETE /domains/v1/verifications: Cancel a verification */
  verificationCancel(args: {
    body: VerificationWish;
  }, options?: CallOptions): Promise<{
    domain: string;
    verificationCode: string;
  }>;
  /** GET /domains/v1/mappings: List the names that are mapped to VMs */
  mappingList(args?: {
    domain?: string;
    domainOwnership?: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<Mapping[]>;
  /** POST /domains/v1/mappings/{domain}: Map a name to a port of a VM, or to a deployment */
  mappingCreate(args: {
    /** Host name */
    domain: string;
    body: MappingNew;
  }, options?: CallOptions): Promise<Mapping & {
    dnsRecords: NameRecord[];
  }>;
  /** DELETE /domains/v1/mappings/{domain}: Remove the mapping of a name */
  mappingDelete(args: {
    /** Host name */
    domain: string;
  }, options?: CallOptions): Promise<Mapping>;
  /** GET /domains/v1/certs: Certificates of the account's names, and for the operator all */
  certList(args?: Record<string, never>, options?: CallOptions): Promise<{
    certs: Certificate[];
  }>;
  /** POST /domains/v1/certs/{domain}/wildcard: Get a wildcard certificate for a verified domain */
  certWildcard(args: {
    /** Host name */
    domain: string;
  }, options?: CallOptions): Promise<{
    domain: string;
  }>;
  /** GET /v1/ca: The certificate of the local CA, for trust stores */
  ca(args?: Record<string, never>, options?: CallOptions): Promise<{
    /** PEM */
    certificate: string;
  }>;
  /** GET /dns/v1/records: List the DNS records of a verified domain */
  recordList(args: {
    domain: string;
  }, options?: CallOptions): Promise<{
    records: DnsRecord[];
    nameServer: string | null;
  }>;
  /** POST /dns/v1/records: Add a DNS record */
  recordCreate(args: {
    body: DnsRecordAdd;
  }, options?: CallOptions): Promise<{
    record: DnsRecord;
  }>;
  /** DELETE /dns/v1/records: Delete a DNS record */
  recordDelete(args: {
    domain: string;
    recordId?: string;
    /** as JSON */
    record?: string;
  }, options?: CallOptions): Promise<{
    message: string;
    id: string;
  }>;
  /** POST /v1/vpcs: Create a private network */
  vpcCreate(args: {
    body: VpcNew;
  }, options?: CallOptions): Promise<Vpc>;
  /** GET /v1/vpcs: List VPCs */
  vpcList(args?: Record<string, never>, options?: CallOptions): Promise<{
    vpcs: Vpc[];
    totalCount: number;
  }>;
  /** GET /v1/vpcs/{vpc_id}: Get a private network with its VMs */
  vpcGet(args: {
    vpcId: string;
  }, options?: CallOptions): Promise<Vpc>;
  /** DELETE /v1/vpcs/{vpc_id}: Delete a VPC that has no VMs */
  vpcDelete(args: {
    vpcId: string;
  }, options?: CallOptions): Promise<{
    vpcId: string;
  }>;
  /** GET /v1/vpcs/{vpc_id}/wireguard: Open tunnels of a VPC */
  wgList(args: {
    vpcId: string;
  }, options?: CallOptions): Promise<{
    vpcId: string;
    sessions: TunnelOpen[];
  }>;
  /** POST /v1/vpcs/{vpc_id}/wireguard/ephemeral: Open a temporary WireGuard tunnel into a VPC */
  wgEphemeral(args: {
    vpcId: string;
    body: Record<string, unknown>;
  }, options?: CallOptions): Promise<Tunnel>;
  /** DELETE /v1/vpcs/{vpc_id}/wireguard/ephemeral: Close a tunnel */
  wgClose(args: {
    vpcId: string;
    body: WireguardClose;
  }, options?: CallOptions): Promise<{
    sessionId: string;
  }>;
  /** POST /v1/vpcs/{vpc_id}/wireguard/peers: Open a tunnel for a public key of the client */
  wgPeer(args: {
    vpcId: string;
    body: WireguardPeerNew;
  }, options?: CallOptions): Promise<Tunnel>;
  /** POST /execute/v3/script: Run a script in a VM of its own; the reply is what its default export returned */
  runCreate(args: {
    body: RunNew;
  }, options?: CallOptions): Promise<RunResult>;
  /** POST /execute/v1/script: The same, as older clients call it */
  runCreateV1(args: {
    body: RunNew;
  }, options?: CallOptions): Promise<RunResult>;
  /** GET /execute/v1/deployments: List runs, newest first */
  runList(args?: {
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    entries: Run[];
    total: number;
    /** of the next page */
    offset: number;
  }>;
  /** GET /execute/v1/deployments/{run}: Get a run, with its script */
  runGet(args: {
    run: string;
  }, options?: CallOptions): Promise<{
    metadata: Run;
    code: {
      code: string;
      nodeModules: Record<string, string>;
    } | null;
  }>;
  /** GET /execute/v1/deployments/{run}/output: Result, error and logs of a run */
  runOutput(args: {
    run: string;
  }, options?: CallOptions): Promise<{
    status: string;
    result: unknown;
    error: string | null;
    logs: RunLog[];
  }>;
  /** POST /web/v1/deployment: Build and start a server, and freeze it: its instances start with the next request */
  deploymentCreate(args: {
    body: DeploymentNew;
  }, options?: CallOptions): Promise<{
    deploymentId: string;
    projectId: string;
    state: string;
    domains: string[];
    entrypoint: string | null;
    accountId: string;
    buildId: string | null;
  }>;
  /** POST /web/v1/deploy: The same, as older clients call it */
  deploymentCreateOld(args: {
    body: DeploymentNew;
  }, options?: CallOptions): Promise<{
    deploymentId: string;
    projectId: string;
    state: string;
    domains: string[];
    entrypoint: string | null;
    accountId: string;
    buildId: string | null;
  }>;
  /** GET /web/v1/deployments: List deployments, newest first */
  deploymentList(args?: {
    limit?: number;
    offset?: number;
    /** in id, name and domains */
    search?: string;
  }, options?: CallOptions): Promise<{
    entries: Deployment[];
    total: number;
    /** of the next page */
    offset: number;
  }>;
  /** GET /web/v1/deployments/{deployment_id}: Get a deployment with its instances */
  deploymentGet(args: {
    deploymentId: string;
  }, options?: CallOptions): Promise<{
    info: DeploymentInfo;
    events: DeploymentEvent[];
  }>;
  /** DELETE /web/v1/deployments/{deployment_id}: Delete a deployment with its names, instances and snapshot; requests under way are cut */
  deploymentDelete(args: {
    deploymentId: string;
  }, options?: CallOptions): Promise<{
    deploymentId: string;
  }>;
  /** GET /web/v1/deployments/{deployment_id}/fetch: Send a request to the server of a deployment; the path is in X-Freestyle-Request-Url */
  deploymentFetch(args: {
    deploymentId: string;
  }, options?: CallOptions): Promise<Response>;
  /** POST /web/v1/deployments/{deployment_id}/fetch: The same with POST */
  deploymentFetchPost(args: {
    deploymentId: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** PUT /web/v1/deployments/{deployment_id}/fetch: The same with PUT */
  deploymentFetchPut(args: {
    deploymentId: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** PATCH /web/v1/deployments/{deployment_id}/fetch: The same with PATCH */
  deploymentFetchPatch(args: {
    deploymentId: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** DELETE /web/v1/deployments/{deployment_id}/fetch: The same with DELETE */
  deploymentFetchDelete(args: {
    deploymentId: string;
    body: Bytes;
  }, options?: CallOptions): Promise<Response>;
  /** POST /v1/cron/schedules: Run a script, or call a deployment, at the times of a cron expression */
  scheduleCreate(args: {
    body: ScheduleNew;
  }, options?: CallOptions): Promise<{
    schedule: Schedule;
  }>;
  /** GET /v1/cron/schedules: List schedules with how they went, by default in the last day */
  scheduleList(args?: {
    deploymentId?: string;
    metricsStart?: string;
    metricsEnd?: string;
  }, options?: CallOptions): Promise<{
    schedules: Array<Schedule & ({
      successRate: number | null;
      averageLatencyMs: number | null;
      executionCount: number;
    })>;
  }>;
  /** GET /v1/cron/schedules/{schedule}: Get a schedule */
  scheduleGet(args: {
    schedule: string;
  }, options?: CallOptions): Promise<{
    schedule: Schedule;
  }>;
  /** PATCH /v1/cron/schedules/{schedule}: Change, pause or resume a schedule; times before the change are over */
  scheduleChange(args: {
    schedule: string;
    body: ScheduleNew;
  }, options?: CallOptions): Promise<{
    success: boolean;
  }>;
  /** DELETE /v1/cron/schedules/{schedule}: Delete a schedule with its executions */
  scheduleDelete(args: {
    schedule: string;
  }, options?: CallOptions): Promise<{
    success: boolean;
  }>;
  /** GET /v1/cron/schedules/{schedule}/executions: List executions with their attempts, newest first */
  executionList(args: {
    schedule: string;
    limit?: number;
    offset?: number;
  }, options?: CallOptions): Promise<{
    executions: Execution[];
    total: number;
    /** of the next page */
    offset: number;
    limit: number;
  }>;
  /** GET /v1/cron/schedules/{schedule}/success-rate: How many executions of a time succeeded */
  scheduleRate(args: {
    schedule: string;
    start: string;
    end: string;
  }, options?: CallOptions): Promise<{
    total: number;
    succeeded: number;
    failed: number;
    successRate: number;
    start: string;
    end: string;
    averageLatencyMs: number | null;
  }>;
  /** GET /v1/cron/schedules/{schedule}/metrics-timeline: Executions of a time, by equal parts of it */
  scheduleTimeline(args: {
    schedule: string;
    start: string;
    end: string;
    bucketMinutes?: number;
  }, options?: CallOptions): Promise<{
    scheduleId: string;
    dataPoints: SchedulePoint[];
    start: string;
    end: string;
  }>;
  /** POST /v1/vms: Create a VM from the base template, a snapshot or a spec. Without a source it is a copy of the base template, which already runs. */
  vmCreate(args: {
    /** a repeat with the same key gets the first one's result */
    idempotencyKey?: string;
    /** then 202, and the result under /auth/v1/background-requests */
    xFreestyleBackgroundAfterSecs?: number;
    body: VmNew & SpecSource & Spec;
  }, options?: CallOptions): Promise<VmCreated | {
    requestId: string;
    status: string;
  }>;
  /** GET /v1/vms: List VMs */
  vmList(args?: {
    limit?: number;
    offset?: number;
    vmState?: VmState;
    includeDeleted?: boolean;
    /** part of id or name */
    search?: string;
    /** separated by commas; all of them */
    tags?: string;
    /** name and value with an equals sign between them, separated by commas */
    metadata?: string;
  }, options?: CallOptions): Promise<VmList>;
  /** GET /v1/vms/{vm_id}: Get a VM */
  vmGet(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<Vm>;
  /** PATCH /v1/vms/{vm_id}: Change name, tags, metadata, settings and end of life of a VM; wakes nothing */
  vmChange(args: {
    /** Id of the VM */
    vmId: string;
    body: VmChange;
  }, options?: CallOptions): Promise<Vm>;
  /** DELETE /v1/vms/{vm_id}: Delete a VM permanently */
  vmDelete(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    id: string;
    recreate: boolean;
  }>;
  /** POST /v1/vms/{vm_id}/start: Resume or boot a VM */
  vmStart(args: {
    /** Id of the VM */
    vmId: string;
    body: VmStart;
  }, options?: CallOptions): Promise<{
    id: string;
    domains: string[];
    console_url: null;
  }>;
  /** POST /v1/vms/{vm_id}/stop: Shut a VM down; its disk is kept */
  vmStop(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    vmId: string;
    vmInstanceId: string | null;
  }>;
  /** POST /v1/vms/{vm_id}/kill: Power a VM off without a shutdown */
  vmKill(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<Id>;
  /** POST /v1/vms/{vm_id}/suspend: Freeze a VM with its memory */
  vmSuspend(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    id: string;
    vmInstanceId: string | null;
    snapshotLayerId: string | null;
  }>;
  /** POST /v1/vms/{vm_id}/fork: Make live copies of a VM, with its memory */
  vmFork(args: {
    /** Id of the VM */
    vmId: string;
    body: VmFork;
  }, options?: CallOptions): Promise<{
    vmId: string;
    forks: VmMade[];
    spread?: {
      nodes: Array<string | null>;
      note: string | null;
    };
  }>;
  /** POST /v1/vms/{vm_id}/snapshot: Take a snapshot of a VM, with its memory */
  vmSnapshot(args: {
    /** Id of the VM */
    vmId: string;
    body: SnapshotNew;
  }, options?: CallOptions): Promise<{
    snapshotId: string;
    sourceVmId: string;
    sourceVmInstanceId: string | null;
  }>;
  /** POST /v1/vms/{vm_id}/await: Wait until the VM stops running */
  vmAwait(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/vms/{vm_id}/resize: Change vCPUs and memory, enlarge the disk */
  vmResize(args: {
    /** Id of the VM */
    vmId: string;
    body: VmResize;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /v1/vms/{vm_id}/optimize: Trim the VM's disk and shorten its chains now */
  vmOptimize(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    id: string;
    message: string;
  }>;
  /** GET /v1/vms/{vm_id}/ports: Ports of this server that lead to ports of a VM, and where its own name leads */
  vmPorts(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    ports: Port[];
    range: string | null;
  }>;
  /** POST /v1/vms/{vm_id}/ports: Map a port of this server to a port of a VM */
  vmPortSet(args: {
    /** Id of the VM */
    vmId: string;
    body: PortMap;
  }, options?: CallOptions): Promise<Port>;
  /** DELETE /v1/vms/{vm_id}/ports/{port}: Unmap a port of a VM */
  vmPortDelete(args: {
    /** Id of the VM */
    vmId: string;
    port: string;
    protocol?: "tcp" | "udp";
  }, options?: CallOptions): Promise<{
    vmId: string;
    port: number;
  }>;
  /** GET /v1/vms/{vm_id}/stats/stream: CPU, memory, disk and network as lines of JSON. Each line is an object of the type Stats. */
  vmStats(args: {
    /** Id of the VM */
    vmId: string;
    intervalMs?: number;
  }, options?: CallOptions): AsyncGenerator<unknown, void, undefined>;
  /** GET /v1/vms/{vm_id}/history: CPU, memory, disk and network of a VM in the last hour; wakes nothing */
  vmHistory(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    vmId: string;
    intervalSeconds: number;
    samples: VmSample[];
  }>;
  /** POST /v1/vms/{vm_id}/exec-await: Run a command and wait for its end */
  vmExec(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: Exec;
  }, options?: CallOptions): Promise<ExecResult>;
  /** GET /v1/vms/{vm_id}/files/{path}: Read a file or list a directory; the path is one encoded segment */
  fileGet(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<FileContent | FileList>;
  /** PUT /v1/vms/{vm_id}/files/{path}: Write a file */
  filePut(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: FileContent;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /v1/vms/{vm_id}/exec: Run a command; its output as server-sent events while it runs. Events: started, stdout, stderr, exit, error; with detach the reply is JSON at once. See STREAMS. */
  vmExecStream(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ExecStream;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/vms/{vm_id}/exec: Run a command; its output as server-sent events while it runs. Events: started, stdout, stderr, exit, error; with detach the reply is JSON at once. See STREAMS. */
  vmExecStreamJson(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ExecStream;
  }, options?: CallOptions): Promise<{
    processId: string;
    pid: number;
  }>;
  /** GET /v1/vms/{vm_id}/processes: List detached processes, and attached ones that are running */
  processList(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    processes: Process[];
  }>;
  /** GET /v1/vms/{vm_id}/processes/{process_id}: Get a process */
  processGet(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Process>;
  /** DELETE /v1/vms/{vm_id}/processes/{process_id}: Remove a finished process from the list */
  processDelete(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /v1/vms/{vm_id}/processes/{process_id}/output: Output of a process from an offset on */
  processOutput(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    /** stdout, stderr or both */
    stream?: string;
    offset?: number;
    follow?: boolean;
  }, options?: CallOptions): Promise<Response>;
  /** GET /v1/vms/{vm_id}/processes/{process_id}/output: Output of a process from an offset on */
  processOutputStream(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    /** stdout, stderr or both */
    stream?: string;
    offset?: number;
    follow?: boolean;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/vms/{vm_id}/processes/{process_id}/signal: Send a signal to a process and its group */
  processSignal(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: Signal;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /v1/vms/{vm_id}/processes/{process_id}/stdin: Write the body to a process's stdin */
  processStdin(args: {
    /** Id of the VM */
    vmId: string;
    processId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    eof?: boolean;
    body: Bytes;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /v1/vms/{vm_id}/raw-files/{path}: A file's bytes */
  rawGet(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    range?: string;
  }, options?: CallOptions): Promise<Response>;
  /** PUT /v1/vms/{vm_id}/raw-files/{path}: Write a file of any size */
  rawPut(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    /** octal, such as 644 */
    mode?: string;
    body: Bytes;
  }, options?: CallOptions): Promise<{
    bytes: number;
  }>;
  /** DELETE /v1/vms/{vm_id}/raw-files/{path}: Remove a file or directory */
  rawDelete(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    recursive?: boolean;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /v1/vms/{vm_id}/tar/{path}: A directory as a tar archive */
  tarGet(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    gzip?: boolean;
  }, options?: CallOptions): Promise<Response>;
  /** PUT /v1/vms/{vm_id}/tar/{path}: Unpack a tar archive below a directory */
  tarPut(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    gzip?: boolean;
    owners?: boolean;
    body: Bytes;
  }, options?: CallOptions): Promise<{
    bytes: number;
  }>;
  /** POST /v1/vms/{vm_id}/watch-files: Changes to files as they happen */
  watchFiles(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    path?: string;
    body: FileWatch;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/code: Run a cell in a new VM that is deleted afterwards */
  code(args: {
    body: CellNew;
  }, options?: CallOptions): Promise<CellResult>;
  /** POST /v1/code: Run a cell in a new VM that is deleted afterwards */
  codeStream(args: {
    body: CellNew;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/vms/{vm_id}/code: Run a cell in a context that keeps its variables */
  vmCode(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: CellNew;
  }, options?: CallOptions): Promise<CellResult>;
  /** POST /v1/vms/{vm_id}/code: Run a cell in a context that keeps its variables */
  vmCodeStream(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: CellNew;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/vms/{vm_id}/code/contexts: Create a context: a kernel of its own */
  contextCreate(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ContextNew;
  }, options?: CallOptions): Promise<CodeContext>;
  /** GET /v1/vms/{vm_id}/code/contexts: List contexts */
  contextList(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    contexts: CodeContext[];
  }>;
  /** DELETE /v1/vms/{vm_id}/code/contexts/{context_id}: End a context with its kernel */
  contextDelete(args: {
    /** Id of the VM */
    vmId: string;
    contextId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /v1/vms/{vm_id}/code/contexts/{context_id}/restart: Restart a context's kernel */
  contextRestart(args: {
    /** Id of the VM */
    vmId: string;
    contextId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Empty>;
  /** POST /v1/vms/{vm_id}/code/contexts/{context_id}/interrupt: Interrupt the running cell */
  contextInterrupt(args: {
    /** Id of the VM */
    vmId: string;
    contextId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Empty>;
  /** GET /v1/vms/{vm_id}/pty/sessions: List terminal sessions */
  ptyList(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    /** false: do not wake a suspended VM to ask it; known is false then if nobody can tell */
    wake?: boolean;
  }, options?: CallOptions): Promise<{
    sessions: PtySession[];
    known?: boolean;
  }>;
  /** DELETE /v1/vms/{vm_id}/pty/sessions/{session_id}: Kill a terminal session */
  ptyClose(args: {
    /** Id of the VM */
    vmId: string;
    sessionId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    sessionId: string;
    exitCode: number | null;
  }>;
  /** POST /v1/vms/{vm_id}/pty/tickets: Create a ticket with which a browser opens or attaches to a terminal session once */
  ptyTicket(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: PtyTicketNew;
  }, options?: CallOptions): Promise<{
    ticket: string;
    expiresAt: string;
    url: string;
  }>;
  /** GET /v1/vms/snapshots: List snapshots */
  snapshotList(args?: {
    includeDeleted?: boolean;
    includeFailed?: boolean;
    includeBuilding?: boolean;
    includeCancelled?: boolean;
    includeLost?: boolean;
  }, options?: CallOptions): Promise<{
    snapshots: Snapshot[];
    totalCount: number;
    buildingCount: number;
    readyCount: number;
    failedCount: number;
    cancelledCount: number;
    lostCount: number;
    deletedCount: number;
  }>;
  /** POST /v1/vms/snapshots: Build a snapshot from a spec */
  snapshotCreate(args: {
    /** a repeat with the same key gets the first one's result */
    idempotencyKey?: string;
    /** then 202, and the result under /auth/v1/background-requests */
    xFreestyleBackgroundAfterSecs?: number;
    body: SnapshotNew & SpecSource & Spec;
  }, options?: CallOptions): Promise<SnapshotBuilt | {
    requestId: string;
    status: string;
  }>;
  /** GET /v1/vms/snapshots/{snapshot_id}: Get a snapshot */
  snapshotGet(args: {
    /** Id of the snapshot */
    snapshotId: string;
  }, options?: CallOptions): Promise<Snapshot>;
  /** PATCH /v1/vms/snapshots/{snapshot_id}: Rename a snapshot */
  snapshotRename(args: {
    /** Id of the snapshot */
    snapshotId: string;
    body: SnapshotName;
  }, options?: CallOptions): Promise<{
    snapshotId: string;
    /** the same */
    snapshot_id: string;
    name: string | null;
  }>;
  /** DELETE /v1/vms/snapshots/{snapshot_id}: Delete a snapshot */
  snapshotDelete(args: {
    /** Id of the snapshot */
    snapshotId: string;
  }, options?: CallOptions): Promise<{
    snapshotId: string;
    /** the same */
    snapshot_id: string;
  }>;
  /** GET /v1/vms/{vm_id}/build: The build a VM came from */
  vmBuild(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<Build>;
  /** GET /v1/vms/builds: Builds, the newest first */
  buildList(args?: {
    state?: "pending" | "running" | "succeeded" | "failed";
    limit?: number;
    /** the operator: of another account */
    accountId?: string;
  }, options?: CallOptions): Promise<{
    builds: Build[];
  }>;
  /** GET /v1/vms/builds/{build_id}: Get a build */
  buildGet(args: {
    /** Id of the build */
    buildId: string;
  }, options?: CallOptions): Promise<Build>;
  /** GET /v1/vms/builds/{build_id}/phases: Steps of a build so far */
  buildPhases(args: {
    /** Id of the build */
    buildId: string;
  }, options?: CallOptions): Promise<{
    phases: Array<{
      phaseId: string;
      buildId: string;
      name: string;
      snapshotId: string | null;
      startedAt: string | null;
    }>;
  }>;
  /** GET /v1/vms/{vm_id}/egress: What a VM may reach; secrets are masked */
  egressGet(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<EgressShown>;
  /** PUT /v1/vms/{vm_id}/egress: Change what a VM may reach, at once */
  egressPut(args: {
    /** Id of the VM */
    vmId: string;
    body: Egress;
  }, options?: CallOptions): Promise<EgressShown>;
  /** GET /v1/vms/{vm_id}/egress/blocked: Destinations that were blocked, newest first */
  egressBlocked(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    vmId: string;
    blocked: Blocked[];
  }>;
  /** GET /v1/tree: All points and VMs of the account, with parents, states and sizes */
  tree(args?: Record<string, never>, options?: CallOptions): Promise<Tree>;
  /** GET /v1/vms/{vm_id}/tree: The tree around one VM */
  vmTree(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<Tree>;
  /** POST /v1/vms/{vm_id}/rewind: Rewind a VM to an ancestor snapshot, or with null to the newest point of its past */
  vmRewind(args: {
    /** Id of the VM */
    vmId: string;
    body: Rewind;
  }, options?: CallOptions): Promise<{
    id: string;
    snapshotId: string | null;
    state: VmState;
    previousSnapshotId: string | null;
    vmInstanceId: string | null;
    generation: number;
  }>;
  /** GET /v1/vms/{vm_id}/diff: Files that differ from a relative */
  vmDiff(args: {
    /** Id of the VM */
    vmId: string;
    /** id of a relative, or of a snapshot */
    with?: string;
    path?: string;
    ignore?: string;
    limit?: number;
    cursor?: string;
  }, options?: CallOptions): Promise<{
    vmId: string;
    with: string;
    changes: FileDiff[];
    cursor: string | null;
  }>;
  /** GET /v1/vms/{vm_id}/systemd/services: List services */
  serviceList(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    services: Service[];
  }>;
  /** POST /v1/vms/{vm_id}/systemd/services: Create a service, enable and start it */
  serviceCreate(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ServiceNew;
  }, options?: CallOptions): Promise<{
    success: boolean;
    message: string;
    serviceName: string;
  }>;
  /** DELETE /v1/vms/{vm_id}/systemd/services/{service_id}: Stop a service and remove its unit file */
  serviceDelete(args: {
    /** Id of the VM */
    vmId: string;
    serviceId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    success: boolean;
    message: string;
  }>;
  /** GET /v1/vms/{vm_id}/systemd/services/{service_id}/status: Status of a service */
  serviceStatus(args: {
    /** Id of the VM */
    vmId: string;
    serviceId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<Service>;
  /** GET /v1/vms/{vm_id}/systemd/services/{service_id}/logs: Journal of a service */
  serviceLogs(args: {
    /** Id of the VM */
    vmId: string;
    serviceId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    lines?: number;
    since?: string;
  }, options?: CallOptions): Promise<{
    logs: Array<{
      message: string | null;
      timestamp: string | null;
      priority: number | null;
      unit: string | null;
    }>;
  }>;
  /** POST /v1/vms/{vm_id}/systemd/start: Start services */
  serviceStart(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ServiceNames;
  }, options?: CallOptions): Promise<ServiceResults>;
  /** POST /v1/vms/{vm_id}/systemd/stop: Stop services */
  serviceStop(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ServiceNames;
  }, options?: CallOptions): Promise<ServiceResults>;
  /** POST /v1/vms/{vm_id}/systemd/restart: Restart services */
  serviceRestart(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
    body: ServiceNames;
  }, options?: CallOptions): Promise<ServiceResults>;
  /** GET /v1/vms/{vm_id}/terminals: List terminals: the output of commands that were run under a name */
  terminalList(args: {
    /** Id of the VM */
    vmId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    terminals: Array<{
      name: string;
      status: string;
      created: string | null;
      lastOutput: string | null;
      user: string;
    }>;
  }>;
  /** GET /v1/vms/{vm_id}/terminals/{terminal_id}/logs: The last lines of a terminal */
  terminalLogs(args: {
    /** Id of the VM */
    vmId: string;
    terminalId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    logs: Array<{
      line: string;
      timestamp: string;
    }>;
    truncated: boolean;
  }>;
  /** GET /v1/vms/{vm_id}/terminals/{terminal_id}/xterm-256color: The same with escape sequences, for a terminal emulator */
  terminalXterm(args: {
    /** Id of the VM */
    vmId: string;
    terminalId: string;
    /** The Linux user in the VM; without it root, or the first one that the token may be. */
    linuxUser?: string;
  }, options?: CallOptions): Promise<{
    output: string;
  }>;
  /** GET /v1/self: Who this VM is, and what it may do to itself */
  selfInfo(args?: Record<string, never>, options?: CallOptions): Promise<SelfVm>;
  /** POST /v1/self/fork: Copy this VM; answered in the copies too */
  selfFork(args: {
    body: SelfFork;
  }, options?: CallOptions): Promise<{
    role: "parent" | "child";
    id: string;
    children?: string[];
  }>;
  /** POST /v1/self/snapshot: Take a snapshot of this VM; answered again in what is made from it */
  selfSnapshot(args: {
    body: SnapshotNew;
  }, options?: CallOptions): Promise<{
    role: string;
    id: string;
    snapshotId?: string;
  }>;
  /** POST /v1/self/suspend: Freeze this VM; answered when it runs again */
  selfSuspend(args?: Record<string, never>, options?: CallOptions): Promise<Id>;
  /** POST /v1/self/rewind: Rewind this VM to a snapshot */
  selfRewind(args: {
    body: Rewind;
  }, options?: CallOptions): Promise<{
    id: string;
    snapshotId: string | null;
    state: VmState;
    previousSnapshotId: string | null;
    vmInstanceId: string | null;
    generation: number;
  }>;
  /** GET /v1/self/children: VMs that this VM made, and those they made */
  selfChildren(args?: Record<string, never>, options?: CallOptions): Promise<{
    children: SelfVm[];
  }>;
  /** GET /v1/self/children/{vm_id}: One of them */
  selfChild(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<SelfVm>;
  /** DELETE /v1/self/children/{vm_id}: Delete it */
  selfVmDelete(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    id: string;
    recreate: boolean;
  }>;
  /** POST /v1/self/children/{vm_id}/exec-await: Run a command in it and wait for its end */
  selfVmExec(args: {
    /** Id of the VM */
    vmId: string;
    body: Exec;
  }, options?: CallOptions): Promise<ExecResult>;
  /** POST /v1/self/children/{vm_id}/exec: Run a command in it; its output as server-sent events while it runs. Events: started, stdout, stderr, exit, error; with detach the reply is JSON at once. See STREAMS. */
  selfVmExecStream(args: {
    /** Id of the VM */
    vmId: string;
    body: ExecStream;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
  /** POST /v1/self/children/{vm_id}/exec: Run a command in it; its output as server-sent events while it runs. Events: started, stdout, stderr, exit, error; with detach the reply is JSON at once. See STREAMS. */
  selfVmExecStreamJson(args: {
    /** Id of the VM */
    vmId: string;
    body: ExecStream;
  }, options?: CallOptions): Promise<{
    processId: string;
    pid: number;
  }>;
  /** GET /v1/self/children/{vm_id}/raw-files/{path}: The bytes of a file in it */
  selfRawGet(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    range?: string;
  }, options?: CallOptions): Promise<Response>;
  /** PUT /v1/self/children/{vm_id}/raw-files/{path}: Write a file of any size in it */
  selfRawPut(args: {
    /** Id of the VM */
    vmId: string;
    /** Path of the file or directory */
    path: string;
    /** octal, such as 644 */
    mode?: string;
    body: Bytes;
  }, options?: CallOptions): Promise<{
    bytes: number;
  }>;
  /** POST /v1/self/children/{vm_id}/start: Resume or boot it */
  selfVmStart(args: {
    /** Id of the VM */
    vmId: string;
    body: VmStart;
  }, options?: CallOptions): Promise<{
    id: string;
    domains: string[];
    console_url: null;
  }>;
  /** POST /v1/self/children/{vm_id}/suspend: Freeze it */
  selfVmSuspend(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): Promise<{
    id: string;
    vmInstanceId: string | null;
    snapshotLayerId: string | null;
  }>;
  /** POST /v1/self/children/{vm_id}/await: Wait until it stops running */
  selfVmAwait(args: {
    /** Id of the VM */
    vmId: string;
  }, options?: CallOptions): AsyncGenerator<ServerEvent, void, undefined>;
}

/** Where each call goes. */
export interface Route {
  method: string;
  path: string;
  kind: "json" | "text" | "bytes" | "events" | "lines" | "socket";
  accept?: string;
  /** The type of the body. */
  sends?: string;
  /** argument: name in the query */
  query?: Record<string, string>;
  /** argument: name of the header */
  header?: Record<string, string>;
  /** argument: name in the path */
  inPath?: Record<string, string>;
}
export type CallName = "health" | "openapi" | "healthz" | "readyz" | "metrics" | "host" | "hostHistory" | "hostLatency" | "cluster" | "nodeDrain" | "nodeRemove" | "whoami" | "backgroundGet" | "logs" | "sessionOpen" | "sessionGet" | "sessionEnd" | "sessionAct" | "sessionList" | "sessionEndAll" | "sessionEndOne" | "loginBegin" | "loginPoll" | "loginGet" | "loginConfirm" | "loginDeny" | "events" | "accountCreate" | "accountList" | "accountGet" | "accountUpdate" | "accountDelete" | "keyCreate" | "keyList" | "keyRevoke" | "backupBegin" | "backupEnd" | "secretsRotate" | "audit" | "webhookCreate" | "webhookList" | "webhookGet" | "webhookChange" | "webhookDelete" | "webhookTest" | "webhookDeliveries" | "webhookDelivery" | "webhookRedeliver" | "identityList" | "identityCreate" | "identityDelete" | "tokenList" | "tokenCreate" | "tokenRevoke" | "vmPermList" | "vmPermGet" | "vmPermGrant" | "vmPermUpdate" | "vmPermRevoke" | "gitPermList" | "gitPermGet" | "gitPermGrant" | "gitPermUpdate" | "gitPermRevoke" | "repoCreate" | "repoList" | "repoGet" | "repoDelete" | "repoVisibility" | "repoSetVisibility" | "repoDefaultBranch" | "repoSetDefaultBranch" | "repoRoot" | "repoContents" | "repoTarball" | "repoZip" | "repoBranch" | "repoBranchPost" | "repoBranches" | "repoBranchCreate" | "repoTags" | "repoTag" | "repoTagObject" | "repoBlob" | "repoTree" | "repoCommits" | "repoCommitObject" | "repoCommit" | "repoCommitCreate" | "repoCompare" | "repoSearch" | "repoSearchFiles" | "repoSearchCommits" | "repoSearchDiffs" | "triggerList" | "triggerCreate" | "triggerGet" | "triggerDelete" | "deliveryList" | "deliveryGet" | "deliveryAgain" | "commitStatus" | "syncGet" | "syncEnable" | "syncDisable" | "syncRun" | "syncHook" | "githubApps" | "githubAppAdd" | "githubManifest" | "githubAppDelete" | "githubInstall" | "githubInstallations" | "githubAdopt" | "githubRepositories" | "githubRefresh" | "githubForget" | "githubWebhook" | "credentialList" | "credentialPut" | "credentialDelete" | "jwks" | "signingRotate" | "gitInfoRefs" | "gitUploadPack" | "gitReceivePack" | "lfsBatch" | "lfsGet" | "lfsPut" | "domainList" | "verificationList" | "verificationCreate" | "verificationComplete" | "verificationCancel" | "mappingList" | "mappingCreate" | "mappingDelete" | "certList" | "certWildcard" | "ca" | "recordList" | "recordCreate" | "recordDelete" | "vpcCreate" | "vpcList" | "vpcGet" | "vpcDelete" | "wgList" | "wgEphemeral" | "wgClose" | "wgPeer" | "runCreate" | "runCreateV1" | "runList" | "runGet" | "runOutput" | "deploymentCreate" | "deploymentCreateOld" | "deploymentList" | "deploymentGet" | "deploymentDelete" | "deploymentFetch" | "deploymentFetchPost" | "deploymentFetchPut" | "deploymentFetchPatch" | "deploymentFetchDelete" | "scheduleCreate" | "scheduleList" | "scheduleGet" | "scheduleChange" | "scheduleDelete" | "executionList" | "scheduleRate" | "scheduleTimeline" | "vmCreate" | "vmList" | "vmGet" | "vmChange" | "vmDelete" | "vmStart" | "vmStop" | "vmKill" | "vmSuspend" | "vmFork" | "vmSnapshot" | "vmAwait" | "vmResize" | "vmOptimize" | "vmPorts" | "vmPortSet" | "vmPortDelete" | "vmStats" | "vmHistory" | "vmExec" | "fileGet" | "filePut" | "vmExecStream" | "vmExecStreamJson" | "processList" | "processGet" | "processDelete" | "processOutput" | "processOutputStream" | "processSignal" | "processStdin" | "rawGet" | "rawPut" | "rawDelete" | "tarGet" | "tarPut" | "watchFiles" | "code" | "codeStream" | "vmCode" | "vmCodeStream" | "contextCreate" | "contextList" | "contextDelete" | "contextRestart" | "contextInterrupt" | "ptyOpen" | "ptyList" | "ptyAttach" | "ptyClose" | "ptyTicket" | "snapshotList" | "snapshotCreate" | "snapshotGet" | "snapshotRename" | "snapshotDelete" | "vmBuild" | "buildList" | "buildGet" | "buildPhases" | "egressGet" | "egressPut" | "egressBlocked" | "tree" | "vmTree" | "vmRewind" | "vmDiff" | "serviceList" | "serviceCreate" | "serviceDelete" | "serviceStatus" | "serviceLogs" | "serviceStart" | "serviceStop" | "serviceRestart" | "terminalList" | "terminalLogs" | "terminalXterm" | "selfInfo" | "selfFork" | "selfSnapshot" | "selfSuspend" | "selfRewind" | "selfChildren" | "selfChild" | "selfVmDelete" | "selfVmExec" | "selfVmExecStream" | "selfVmExecStreamJson" | "selfRawGet" | "selfRawPut" | "selfVmStart" | "selfVmSuspend" | "selfVmAwait";
export const CALLS: Readonly<Record<CallName, Route>>;
