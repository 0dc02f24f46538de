CREATE SCHEMA IF NOT EXISTS agent
;;
CREATE SCHEMA IF NOT EXISTS approval
;;
CREATE SCHEMA IF NOT EXISTS dead_letters
;;
CREATE SCHEMA IF NOT EXISTS executor
;;
CREATE SCHEMA IF NOT EXISTS gateway
;;
CREATE SCHEMA IF NOT EXISTS jobs
;;
CREATE SCHEMA IF NOT EXISTS notifier
;;
CREATE SCHEMA IF NOT EXISTS policy
;;
CREATE SCHEMA IF NOT EXISTS tools
;;
CREATE TABLE agent.attempts (
  conversation_id VARCHAR NOT NULL,
  data JSONB NOT NULL,
  CONSTRAINT pk_attempts PRIMARY KEY (conversation_id)
)
 WITH (fillfactor = 50)
;;
CREATE TABLE agent.conversations (
  conversation_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  agent VARCHAR NOT NULL,
  language VARCHAR NOT NULL,
  labels JSONB NOT NULL,
  log_seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  turn_id VARCHAR,
  queued INTEGER NOT NULL,
  staged INTEGER,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  held BOOLEAN DEFAULT false NOT NULL,
  holder_revision INTEGER DEFAULT '0' NOT NULL,
  holder_told INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_conversations PRIMARY KEY (conversation_id),
  CONSTRAINT ck_conversations_queued_behind_turn CHECK (queued = 0 OR turn_id IS NOT NULL OR held)
)
 WITH (fillfactor = 50)
;;
CREATE TABLE agent.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON agent.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE agent.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE agent.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON agent.inbox USING brin (handled_at)
;;
COMMENT ON TABLE agent.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE agent.log (
  conversation_id VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  tenant VARCHAR NOT NULL,
  type VARCHAR NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  data JSONB NOT NULL,
  CONSTRAINT pk_log PRIMARY KEY (conversation_id, seq)
)
;;
CREATE TABLE agent.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE agent.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE agent.steps (
  conversation_id VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  step INTEGER NOT NULL,
  tenant VARCHAR NOT NULL,
  message_id VARCHAR NOT NULL,
  raw JSONB NOT NULL,
  model VARCHAR NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  said_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  CONSTRAINT pk_steps PRIMARY KEY (conversation_id, turn_id, step)
)
;;
CREATE INDEX ix_steps_day ON agent.steps (tenant, said_at) INCLUDE (conversation_id, model, input_tokens, output_tokens)
;;
CREATE TABLE agent.tool_calls (
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  message_id VARCHAR NOT NULL,
  step INTEGER NOT NULL,
  position INTEGER NOT NULL,
  provider_call_id VARCHAR NOT NULL,
  tool VARCHAR NOT NULL,
  arguments VARCHAR NOT NULL,
  shown_arguments VARCHAR NOT NULL,
  digest VARCHAR,
  state VARCHAR NOT NULL,
  result_kind VARCHAR,
  result JSONB,
  held VARCHAR,
  next_message VARCHAR,
  approval_id VARCHAR,
  approval_revision INTEGER NOT NULL,
  undecided BOOLEAN NOT NULL,
  interim_at TIMESTAMP WITH TIME ZONE,
  told_number INTEGER,
  cards JSONB,
  proposed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  answered_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_tool_calls PRIMARY KEY (call_id),
  CONSTRAINT ck_tool_calls_state_known CHECK (state IN ('open', 'continued', 'stopped', 'answered')),
  CONSTRAINT ck_tool_calls_result_iff_answered CHECK ((result_kind IS NOT NULL) = (state = 'answered')),
  CONSTRAINT ck_tool_calls_answered_at_iff_answered CHECK ((answered_at IS NOT NULL) = (state = 'answered')),
  CONSTRAINT ck_tool_calls_held_known CHECK (held IN ('at_once', 'on_message')),
  CONSTRAINT ck_tool_calls_next_message_known CHECK (next_message IN ('wait', 'supersede')),
  CONSTRAINT ck_tool_calls_held_one_way CHECK (held IS NULL OR next_message IS NULL),
  CONSTRAINT ck_tool_calls_no_interim_while_open CHECK (state <> 'open' OR interim_at IS NULL),
  CONSTRAINT ck_tool_calls_interim_when_continued CHECK (state <> 'continued' OR interim_at IS NOT NULL),
  CONSTRAINT ck_tool_calls_result_kind_known CHECK (result_kind IN ('succeeded', 'failed', 'refused', 'denied', 'answered', 'expired', 'cancelled', 'superseded', 'invalid', 'staged', 'unknown')),
  CONSTRAINT ck_tool_calls_digest_unless_invalid CHECK (digest IS NOT NULL OR result_kind IS NOT DISTINCT FROM 'invalid'),
  CONSTRAINT uq_tool_calls_conversation_id_turn_id_step_position UNIQUE (conversation_id, turn_id, step, position)
)
 WITH (fillfactor = 50)
;;
CREATE TABLE approval.approvals (
  approval_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  message_id VARCHAR NOT NULL,
  step INTEGER NOT NULL,
  position INTEGER NOT NULL,
  agent VARCHAR NOT NULL,
  requester VARCHAR NOT NULL,
  language VARCHAR NOT NULL,
  labels JSONB NOT NULL,
  tool VARCHAR NOT NULL,
  schema_digest VARCHAR NOT NULL,
  arguments VARCHAR NOT NULL,
  shown_arguments VARCHAR,
  origins JSONB,
  base JSONB,
  digest VARCHAR NOT NULL,
  edited JSONB,
  category VARCHAR NOT NULL,
  pool VARCHAR NOT NULL,
  permit_expires_after_seconds INTEGER NOT NULL,
  summary VARCHAR NOT NULL,
  searched VARCHAR NOT NULL,
  rule VARCHAR NOT NULL,
  rulebook_digest VARCHAR NOT NULL,
  directory_digest VARCHAR DEFAULT '' NOT NULL,
  reason VARCHAR NOT NULL,
  approval_rule JSONB NOT NULL,
  deciders TEXT[] NOT NULL,
  deciders_digest VARCHAR NOT NULL,
  closed_to JSONB NOT NULL,
  voters JSONB NOT NULL,
  state VARCHAR NOT NULL,
  revision INTEGER NOT NULL,
  arguments_revision INTEGER DEFAULT '1' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  decided_by VARCHAR,
  decision_reason VARCHAR,
  result_kind VARCHAR,
  answer_kind VARCHAR,
  closed_at TIMESTAMP WITH TIME ZONE,
  steps_done INTEGER DEFAULT '0' NOT NULL,
  next_step_at TIMESTAMP WITH TIME ZONE,
  claimed_by VARCHAR,
  claimed_until TIMESTAMP WITH TIME ZONE,
  delegations JSONB DEFAULT '[]' NOT NULL,
  seats JSONB,
  cancel_asked_by VARCHAR,
  cancel_asked_at TIMESTAMP WITH TIME ZONE,
  staged JSONB,
  correlation_id VARCHAR NOT NULL,
  traceparent VARCHAR NOT NULL,
  CONSTRAINT pk_approvals PRIMARY KEY (approval_id),
  CONSTRAINT ck_approvals_state_known CHECK (state IN ('pending', 'approved', 'denied', 'answered', 'expired', 'withdrawn')),
  CONSTRAINT ck_approvals_category_known CHECK (category IN ('safe_read', 'safe_search', 'safe_compute', 'unsafe_write', 'unsafe_api', 'unsafe_exec')),
  CONSTRAINT ck_approvals_closed_iff_final CHECK ((state <> 'pending') = (closed_at IS NOT NULL)),
  CONSTRAINT ck_approvals_decided_by_a_person CHECK ((state IN ('approved', 'denied', 'answered')) = (decided_by IS NOT NULL)),
  CONSTRAINT ck_approvals_refused_with_kind CHECK ((state IN ('pending', 'approved')) = (result_kind IS NULL)),
  CONSTRAINT ck_approvals_answer_kind_known CHECK (answer_kind IN ('result', 'instruction')),
  CONSTRAINT ck_approvals_answer_kind_of_answers CHECK (answer_kind IS NULL OR state = 'answered'),
  CONSTRAINT ck_approvals_kind_fits_state CHECK ((state, result_kind) IN (('denied', 'denied'), ('answered', 'answered'), ('expired', 'expired'), ('withdrawn', 'cancelled'), ('withdrawn', 'superseded')) OR result_kind IS NULL),
  CONSTRAINT ck_approvals_decided_in_time CHECK (state NOT IN ('approved', 'denied', 'answered') OR closed_at < expires_at),
  CONSTRAINT ck_approvals_revision_positive CHECK (revision >= arguments_revision AND arguments_revision >= 1),
  CONSTRAINT ck_approvals_edited_with_original CHECK ((edited IS NOT NULL) = (arguments_revision > 1)),
  CONSTRAINT ck_approvals_claimed_for_a_time CHECK ((claimed_by IS NULL) = (claimed_until IS NULL)),
  CONSTRAINT uq_approvals_call_id UNIQUE (call_id)
)
 WITH (fillfactor = 50)
;;
CREATE INDEX ix_approvals_agent ON approval.approvals (tenant, agent, created_at DESC, approval_id DESC)
;;
CREATE INDEX ix_approvals_category ON approval.approvals (tenant, category, created_at DESC, approval_id DESC)
;;
CREATE INDEX ix_approvals_conversation ON approval.approvals (tenant, conversation_id, created_at DESC, approval_id DESC)
;;
CREATE INDEX ix_approvals_deciders ON approval.approvals (tenant, deciders_digest, created_at DESC, approval_id DESC) WHERE state = 'pending'
;;
CREATE INDEX ix_approvals_due ON approval.approvals (expires_at) WHERE state = 'pending'
;;
CREATE INDEX ix_approvals_inbox ON approval.approvals (tenant, state, created_at DESC, approval_id DESC)
;;
CREATE INDEX ix_approvals_requester ON approval.approvals (tenant, requester, created_at DESC, approval_id DESC) WHERE state = 'pending' AND 'requester' = ANY (deciders)
;;
CREATE INDEX ix_approvals_steps ON approval.approvals (next_step_at) WHERE state = 'pending' AND next_step_at IS NOT NULL
;;
CREATE INDEX ix_approvals_tool ON approval.approvals (tenant, tool, created_at DESC, approval_id DESC)
;;
CREATE TABLE approval.calls (
  tenant VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  withdrawn_kind VARCHAR,
  withdrawn_reason VARCHAR,
  heard_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_calls PRIMARY KEY (tenant, call_id),
  CONSTRAINT ck_calls_withdrawn_kind_known CHECK (withdrawn_kind IN ('cancelled', 'superseded')),
  CONSTRAINT ck_calls_withdrawn_with_reason CHECK ((withdrawn_kind IS NULL) = (withdrawn_reason IS NULL))
)
;;
CREATE TABLE approval.decisions (
  tenant VARCHAR NOT NULL,
  decision_id VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  verb VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  revision INTEGER,
  proof VARCHAR NOT NULL,
  key_id VARCHAR,
  roles JSONB DEFAULT '[]' NOT NULL,
  conversation_id VARCHAR,
  details JSONB DEFAULT '{}' NOT NULL,
  signed VARCHAR NOT NULL,
  at DOUBLE PRECISION DEFAULT 0 NOT NULL,
  outcome VARCHAR NOT NULL,
  answer JSONB NOT NULL,
  arguments_revision INTEGER,
  counted_revision INTEGER,
  decided_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_decisions PRIMARY KEY (tenant, decision_id),
  CONSTRAINT ck_decisions_verb_known CHECK (verb IN ('approve', 'deny', 'abstain', 'edit', 'respond', 'delegate', 'claim', 'release', 'cancel')),
  CONSTRAINT ck_decisions_outcome_known CHECK (outcome IN ('accepted', 'already_decided', 'stale', 'not_allowed', 'too_weak', 'invalid', 'not_found')),
  CONSTRAINT ck_decisions_counted_votes CHECK ((counted_revision IS NULL) = (arguments_revision IS NULL) AND (counted_revision IS NULL OR (outcome = 'accepted' AND verb IN ('approve', 'deny', 'abstain', 'edit'))))
)
;;
CREATE INDEX ix_decisions_approval ON approval.decisions (approval_id, decided_at)
;;
CREATE TABLE approval.edits (
  tenant VARCHAR NOT NULL,
  edit_id VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  base_revision INTEGER NOT NULL,
  before VARCHAR NOT NULL,
  before_digest VARCHAR NOT NULL,
  arguments VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  shown_before VARCHAR,
  shown_arguments VARCHAR,
  differences JSONB NOT NULL,
  signed VARCHAR NOT NULL,
  answer_to VARCHAR NOT NULL,
  detail VARCHAR DEFAULT '' NOT NULL,
  rulebook_digest VARCHAR,
  asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
  judged_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_edits PRIMARY KEY (tenant, edit_id),
  CONSTRAINT ck_edits_state_known CHECK (state IN ('asked', 'accepted', 'refused')),
  CONSTRAINT ck_edits_judged_iff_over CHECK ((state = 'asked') = (judged_at IS NULL))
)
;;
CREATE INDEX ix_edits_approval ON approval.edits (approval_id, asked_at)
;;
CREATE TABLE approval.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON approval.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE approval.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE approval.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON approval.inbox USING brin (handled_at)
;;
COMMENT ON TABLE approval.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE approval.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE approval.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE approval.word_cursor (
  singleton BOOLEAN NOT NULL,
  history_id BIGINT NOT NULL,
  CONSTRAINT pk_word_cursor PRIMARY KEY (singleton),
  CONSTRAINT ck_word_cursor_one_row CHECK (singleton)
)
;;
CREATE TABLE approval.words (
  tenant VARCHAR NOT NULL,
  word VARCHAR NOT NULL,
  is_open BOOLEAN NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE NOT NULL,
  approval_id VARCHAR NOT NULL,
  CONSTRAINT pk_words PRIMARY KEY (tenant, word, is_open, created_at, approval_id)
)
;;
CREATE TABLE dead_letters.dead_letters (
  dead_letter_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  queue VARCHAR NOT NULL,
  service VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  message_id VARCHAR NOT NULL,
  message_type VARCHAR NOT NULL,
  body VARCHAR NOT NULL,
  shown_body VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  received_at TIMESTAMP WITH TIME ZONE NOT NULL,
  resolved_at TIMESTAMP WITH TIME ZONE,
  resolved_by VARCHAR,
  CONSTRAINT pk_dead_letters PRIMARY KEY (dead_letter_id),
  CONSTRAINT ck_dead_letters_state_known CHECK (state IN ('open', 'replayed', 'discarded')),
  CONSTRAINT ck_dead_letters_resolved_iff_not_open CHECK ((state <> 'open') = (resolved_at IS NOT NULL))
)
;;
CREATE INDEX ix_dead_letters_newest ON dead_letters.dead_letters (tenant, received_at DESC, dead_letter_id DESC)
;;
CREATE INDEX ix_dead_letters_open ON dead_letters.dead_letters (tenant, received_at DESC, dead_letter_id DESC) WHERE state = 'open'
;;
CREATE TABLE dead_letters.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON dead_letters.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE dead_letters.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE dead_letters.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON dead_letters.inbox USING brin (handled_at)
;;
COMMENT ON TABLE dead_letters.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE dead_letters.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE dead_letters.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE executor.executions (
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  tool VARCHAR NOT NULL,
  schema_digest VARCHAR NOT NULL,
  pool VARCHAR NOT NULL,
  idempotent BOOLEAN NOT NULL,
  permit_id VARCHAR NOT NULL,
  permit_issuer VARCHAR NOT NULL,
  permit_expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  answer_id VARCHAR,
  permit VARCHAR NOT NULL,
  call VARCHAR NOT NULL,
  cause JSONB NOT NULL,
  state VARCHAR NOT NULL,
  fence INTEGER NOT NULL,
  worker VARCHAR NOT NULL,
  lease_until TIMESTAMP WITH TIME ZONE,
  mode VARCHAR,
  plan VARCHAR,
  begun_at TIMESTAMP WITH TIME ZONE,
  finished_at TIMESTAMP WITH TIME ZONE,
  error VARCHAR NOT NULL,
  resolution VARCHAR,
  resolved_by VARCHAR,
  resolution_note VARCHAR DEFAULT '' NOT NULL,
  resolution_signed VARCHAR DEFAULT '' NOT NULL,
  resolved_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_executions PRIMARY KEY (call_id),
  CONSTRAINT ck_executions_state_known CHECK (state IN ('committing', 'expired', 'failed', 'refused', 'resolved', 'running', 'staged', 'succeeded', 'unknown', 'verifying')),
  CONSTRAINT ck_executions_finished_iff_answered CHECK ((state IN ('expired', 'failed', 'refused', 'resolved', 'staged', 'succeeded', 'unknown')) = (finished_at IS NOT NULL)),
  CONSTRAINT ck_executions_lease_iff_worked_on CHECK ((state IN ('running', 'verifying')) = (lease_until IS NOT NULL)),
  CONSTRAINT ck_executions_begun_iff_claimed CHECK ((state IN ('expired', 'refused')) = (begun_at IS NULL)),
  CONSTRAINT ck_executions_fence_iff_begun CHECK ((begun_at IS NULL) = (fence = 0) AND fence >= 0),
  CONSTRAINT ck_executions_resolved_iff_resolved CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
  CONSTRAINT ck_executions_resolution_whole CHECK ((resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL)),
  CONSTRAINT ck_executions_resolution_known CHECK (resolution IN ('ran', 'did_not_run')),
  CONSTRAINT ck_executions_mode_known CHECK (mode IN ('stage', 'commit', 'staged_call')),
  CONSTRAINT uq_executions_permit_id UNIQUE (permit_id)
)
 WITH (fillfactor = 50)
;;
CREATE INDEX ix_executions_leases ON executor.executions (pool, lease_until) WHERE state IN ('running', 'verifying')
;;
CREATE INDEX ix_executions_unknown ON executor.executions (pool) WHERE state = 'unknown'
;;
CREATE UNIQUE INDEX ix_executions_answers ON executor.executions (answer_id) WHERE answer_id IS NOT NULL AND state IN ('committing', 'running', 'verifying')
;;
CREATE TABLE executor.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON executor.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE executor.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE executor.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON executor.inbox USING brin (handled_at)
;;
COMMENT ON TABLE executor.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE executor.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE executor.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE executor.parked (
  event_id VARCHAR NOT NULL,
  pool VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  body VARCHAR NOT NULL,
  parked_at TIMESTAMP WITH TIME ZONE NOT NULL,
  lent_until TIMESTAMP WITH TIME ZONE,
  answer_id VARCHAR,
  position INTEGER,
  expires_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_parked PRIMARY KEY (event_id)
)
;;
CREATE INDEX ix_parked_answers ON executor.parked (answer_id, position) WHERE answer_id IS NOT NULL
;;
CREATE INDEX ix_parked_turn ON executor.parked (tenant, pool, parked_at)
;;
CREATE TABLE executor.past_calls (
  call_id VARCHAR NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_past_calls PRIMARY KEY (call_id)
)
;;
CREATE TABLE executor.workspaces (
  workspace_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  agent VARCHAR NOT NULL,
  pool VARCHAR,
  state VARCHAR NOT NULL,
  journal VARCHAR DEFAULT 'none' NOT NULL,
  journal_fence INTEGER,
  commit_call_id VARCHAR,
  scopes TEXT[] DEFAULT '{}' NOT NULL,
  entries INTEGER NOT NULL,
  bytes BIGINT NOT NULL,
  opened_at TIMESTAMP WITH TIME ZONE NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  ended_by VARCHAR DEFAULT '' NOT NULL,
  reason VARCHAR DEFAULT '' NOT NULL,
  CONSTRAINT pk_workspaces PRIMARY KEY (workspace_id),
  CONSTRAINT ck_workspaces_state_known CHECK (state IN ('open', 'committing', 'committed', 'partly_committed', 'conflicted', 'discarded', 'merged')),
  CONSTRAINT ck_workspaces_journal_known CHECK (journal IN ('none', 'applying', 'applied')),
  CONSTRAINT ck_workspaces_ended_iff_final CHECK ((state IN ('open', 'committing')) = (ended_at IS NULL)),
  CONSTRAINT ck_workspaces_commit_has_call CHECK (state <> 'committing' OR commit_call_id IS NOT NULL),
  CONSTRAINT ck_workspaces_journal_of_commit CHECK (journal = 'none' OR commit_call_id IS NOT NULL),
  CONSTRAINT ck_workspaces_counted CHECK (entries >= 0 AND bytes >= 0),
  CONSTRAINT uq_workspaces_tenant_conversation_id_number UNIQUE (tenant, conversation_id, number)
)
;;
CREATE INDEX ix_workspaces_applying ON executor.workspaces (workspace_id) WHERE journal = 'applying'
;;
CREATE INDEX ix_workspaces_ended ON executor.workspaces (ended_at)
;;
CREATE INDEX ix_workspaces_expiry ON executor.workspaces (expires_at) WHERE state = 'open'
;;
CREATE UNIQUE INDEX ix_workspaces_live ON executor.workspaces (tenant, conversation_id) WHERE state IN ('committing', 'open')
;;
CREATE TABLE gateway.api_keys (
  key_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  scopes TEXT[] NOT NULL,
  secret_hash VARCHAR NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  created_by VARCHAR NOT NULL,
  revoked_at TIMESTAMP WITH TIME ZONE,
  revoked_by VARCHAR,
  taken_over_at TIMESTAMP WITH TIME ZONE,
  taken_over_by VARCHAR,
  code_hash VARCHAR,
  code_expires_at TIMESTAMP WITH TIME ZONE,
  code_tries INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_api_keys PRIMARY KEY (key_id),
  CONSTRAINT ck_api_keys_scopes_known CHECK (scopes <@ ARRAY['chat', 'decide', 'operate', 'admin']),
  CONSTRAINT ck_api_keys_scopes_some CHECK (cardinality(scopes) > 0),
  CONSTRAINT ck_api_keys_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)),
  CONSTRAINT ck_api_keys_secret_hashed CHECK (length(secret_hash) = 64),
  CONSTRAINT ck_api_keys_taken_over_somehow CHECK ((taken_over_at IS NULL) = (taken_over_by IS NULL)),
  CONSTRAINT ck_api_keys_taken_over_by_known CHECK (taken_over_by IN ('maker', 'set-up', 'sign-in', 'code', 'key'))
)
;;
CREATE INDEX ix_api_keys_person ON gateway.api_keys (tenant, person)
;;
CREATE INDEX ix_api_keys_tenant ON gateway.api_keys (tenant, created_at)
;;
CREATE TABLE gateway.checkpoints (
  tenant VARCHAR NOT NULL,
  number BIGINT NOT NULL,
  token VARCHAR NOT NULL,
  sealed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, number)
)
;;
CREATE TABLE gateway.comments (
  comment_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  question BOOLEAN NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_comments PRIMARY KEY (comment_id),
  CONSTRAINT ck_comments_says_something CHECK (text <> '')
)
;;
CREATE INDEX ix_comments_approval ON gateway.comments (tenant, approval_id, created_at)
;;
CREATE TABLE gateway.conversations (
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  agent VARCHAR NOT NULL,
  language VARCHAR DEFAULT 'en' NOT NULL,
  labels JSONB DEFAULT '{}' NOT NULL,
  visitor VARCHAR,
  token_hash VARCHAR,
  token_expires_at TIMESTAMP WITH TIME ZONE,
  token_of VARCHAR DEFAULT '' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  created_by VARCHAR DEFAULT '' NOT NULL,
  opener_decides BOOLEAN DEFAULT false NOT NULL,
  relayed_by VARCHAR DEFAULT '' NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  ended_by VARCHAR,
  holder VARCHAR DEFAULT 'agent' NOT NULL,
  holder_revision INTEGER DEFAULT '0' NOT NULL,
  operator VARCHAR DEFAULT '' NOT NULL,
  held_since TIMESTAMP WITH TIME ZONE,
  held_reason VARCHAR DEFAULT '' NOT NULL,
  told_seq BIGINT,
  CONSTRAINT pk_conversations PRIMARY KEY (tenant, conversation_id),
  CONSTRAINT ck_conversations_ended_by_somebody CHECK ((ended_at IS NULL) = (ended_by IS NULL)),
  CONSTRAINT ck_conversations_holder_known CHECK (holder IN ('agent', 'waiting', 'operator')),
  CONSTRAINT ck_conversations_operator_iff_held CHECK ((holder = 'operator') = (operator <> '')),
  CONSTRAINT ck_conversations_held_since_iff_held CHECK ((holder = 'agent') = (held_since IS NULL)),
  CONSTRAINT uq_conversations_token_hash UNIQUE (token_hash)
)
;;
CREATE INDEX ix_conversations_creator ON gateway.conversations (tenant, created_by, created_at DESC)
;;
CREATE INDEX ix_conversations_held ON gateway.conversations (tenant, held_since DESC, conversation_id DESC) WHERE held_since IS NOT NULL AND ended_at IS NULL
;;
CREATE INDEX ix_conversations_id ON gateway.conversations (conversation_id)
;;
CREATE TABLE gateway.erasures (
  erasure_id VARCHAR NOT NULL,
  who VARCHAR NOT NULL,
  asked_by VARCHAR NOT NULL,
  asked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  done_at TIMESTAMP WITH TIME ZONE,
  waits_for TEXT[] DEFAULT '{}' NOT NULL,
  CONSTRAINT pk_erasures PRIMARY KEY (erasure_id)
)
;;
CREATE INDEX ix_erasures_waiting ON gateway.erasures (asked_at) WHERE done_at IS NULL
;;
CREATE TABLE gateway.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON gateway.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE gateway.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE gateway.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON gateway.inbox USING brin (handled_at)
;;
COMMENT ON TABLE gateway.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE gateway.link_uses (
  token_hash VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  verb VARCHAR NOT NULL,
  decision_id VARCHAR NOT NULL,
  outcome VARCHAR NOT NULL,
  used_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_link_uses PRIMARY KEY (token_hash),
  CONSTRAINT ck_link_uses_outcome_known CHECK (outcome IN ('sent', 'counted', 'refused')),
  CONSTRAINT uq_link_uses_decision_id UNIQUE (decision_id)
)
;;
CREATE TABLE gateway.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE gateway.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE gateway.restores (
  restored_at TIMESTAMP WITH TIME ZONE NOT NULL,
  backup_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_restores PRIMARY KEY (restored_at),
  CONSTRAINT ck_restores_backup_before CHECK (backup_at <= restored_at)
)
;;
CREATE TABLE gateway.saved_views (
  tenant VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  address VARCHAR NOT NULL,
  CONSTRAINT pk_saved_views PRIMARY KEY (tenant, person, name)
)
;;
CREATE TABLE gateway.sealing (
  singleton BOOLEAN NOT NULL,
  upto JSONB NOT NULL,
  CONSTRAINT pk_sealing PRIMARY KEY (singleton),
  CONSTRAINT ck_sealing_only_one CHECK (singleton)
)
;;
CREATE TABLE gateway.sessions (
  session_id VARCHAR NOT NULL,
  token_hash VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  method VARCHAR NOT NULL,
  key_id VARCHAR,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  revoked_at TIMESTAMP WITH TIME ZONE,
  revoked_by VARCHAR,
  CONSTRAINT pk_sessions PRIMARY KEY (session_id),
  CONSTRAINT ck_sessions_method_known CHECK (method IN ('key', 'link', 'oidc')),
  CONSTRAINT ck_sessions_rights_from_somewhere CHECK ((method = 'oidc') = (key_id IS NULL)),
  CONSTRAINT ck_sessions_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)),
  CONSTRAINT ck_sessions_token_hashed CHECK (length(token_hash) = 64),
  CONSTRAINT uq_sessions_token_hash UNIQUE (token_hash)
)
;;
CREATE INDEX ix_sessions_expires_at ON gateway.sessions (expires_at)
;;
CREATE INDEX ix_sessions_tenant ON gateway.sessions (tenant, created_at)
;;
CREATE TABLE gateway.slack_seen (
  key VARCHAR NOT NULL,
  seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_slack_seen PRIMARY KEY (key)
)
;;
CREATE INDEX ix_slack_seen_at ON gateway.slack_seen (seen_at)
;;
CREATE TABLE gateway.stops (
  stop_id VARCHAR NOT NULL,
  tenant VARCHAR,
  tool VARCHAR,
  agent VARCHAR,
  reason VARCHAR NOT NULL,
  by_another BOOLEAN NOT NULL,
  by_house BOOLEAN NOT NULL,
  stopped_at TIMESTAMP WITH TIME ZONE NOT NULL,
  stopped_by VARCHAR NOT NULL,
  signature VARCHAR NOT NULL,
  resumed_at TIMESTAMP WITH TIME ZONE,
  resumed_by VARCHAR,
  resume_reason VARCHAR DEFAULT '' NOT NULL,
  resume_signature VARCHAR,
  CONSTRAINT pk_stops PRIMARY KEY (stop_id),
  CONSTRAINT ck_stops_whole_house CHECK (tenant IS NOT NULL OR (tool IS NULL AND agent IS NULL)),
  CONSTRAINT ck_stops_one_target CHECK (tool IS NULL OR agent IS NULL),
  CONSTRAINT ck_stops_resumed_by_somebody CHECK ((resumed_at IS NULL) = (resumed_by IS NULL)),
  CONSTRAINT ck_stops_resumed_signed CHECK ((resumed_at IS NULL) = (resume_signature IS NULL)),
  CONSTRAINT ck_stops_by_another_kept CHECK (resumed_by IS NULL OR NOT by_another OR resumed_by <> stopped_by),
  CONSTRAINT ck_stops_all_by_house CHECK (tenant IS NOT NULL OR by_house)
)
;;
CREATE INDEX ix_stops_newest ON gateway.stops (stopped_at DESC, stop_id DESC)
;;
CREATE UNIQUE INDEX ix_stops_active ON gateway.stops (tenant, tool, agent, by_house, by_another) NULLS NOT DISTINCT WHERE resumed_at IS NULL
;;
CREATE TABLE jobs.attempts (
  attempt_id VARCHAR NOT NULL,
  job_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  conversation_id VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  vote_key VARCHAR,
  answer JSONB,
  tree_digest VARCHAR,
  staged INTEGER NOT NULL,
  flags TEXT[] NOT NULL,
  reason VARCHAR NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cost FLOAT,
  calls INTEGER NOT NULL,
  asked_again INTEGER NOT NULL,
  begun_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  begins_at TIMESTAMP WITH TIME ZONE,
  deadline TIMESTAMP WITH TIME ZONE NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_attempts PRIMARY KEY (attempt_id),
  CONSTRAINT ck_attempts_state_known CHECK (state IN ('running', 'voted', 'conflicted', 'flagged', 'lost', 'withdrawn'))
)
 WITH (fillfactor = 70)
;;
CREATE INDEX ix_attempts_begins ON jobs.attempts (begins_at) WHERE begins_at IS NOT NULL
;;
CREATE INDEX ix_attempts_deadline ON jobs.attempts (deadline) WHERE state = 'running'
;;
CREATE UNIQUE INDEX ix_attempts_of_task ON jobs.attempts (job_id, number, attempt)
;;
CREATE TABLE jobs.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON jobs.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE jobs.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE jobs.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON jobs.inbox USING brin (handled_at)
;;
COMMENT ON TABLE jobs.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE jobs.jobs (
  job_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  agent VARCHAR NOT NULL,
  author VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  spec JSONB NOT NULL,
  tasks INTEGER NOT NULL,
  decided INTEGER NOT NULL,
  active INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  running INTEGER NOT NULL,
  flagged INTEGER NOT NULL,
  agreed INTEGER NOT NULL,
  "cast" INTEGER NOT NULL,
  tokens BIGINT NOT NULL,
  cost FLOAT NOT NULL,
  cost_most FLOAT NOT NULL,
  unpriced BOOLEAN NOT NULL,
  starved BOOLEAN NOT NULL,
  staged BOOLEAN NOT NULL,
  workspace VARCHAR,
  entries INTEGER NOT NULL,
  changes VARCHAR NOT NULL,
  conflicted INTEGER NOT NULL,
  retried INTEGER,
  silent_since TIMESTAMP WITH TIME ZONE,
  log_seq INTEGER NOT NULL,
  reason VARCHAR NOT NULL,
  result JSONB,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_jobs PRIMARY KEY (job_id),
  CONSTRAINT ck_jobs_state_known CHECK (state IN ('dividing', 'running', 'waiting', 'withdrawing', 'done', 'failed', 'cancelled')),
  CONSTRAINT ck_jobs_changes_known CHECK (changes IN ('', 'staged', 'waiting', 'committed', 'partly_committed', 'conflicted', 'unknown', 'discarded')),
  CONSTRAINT ck_jobs_ended_iff_final CHECK ((state IN ('cancelled', 'done', 'failed')) = (ended_at IS NOT NULL))
)
 WITH (fillfactor = 70)
;;
CREATE INDEX ix_jobs_author ON jobs.jobs (tenant, author, created_at DESC, job_id DESC)
;;
CREATE INDEX ix_jobs_caller ON jobs.jobs ((spec #>> '{caller,conversation_id}')) WHERE (spec #>> '{caller,conversation_id}') IS NOT NULL
;;
CREATE INDEX ix_jobs_newest ON jobs.jobs (tenant, created_at DESC, job_id DESC)
;;
CREATE INDEX ix_jobs_retried ON jobs.jobs (job_id) WHERE retried IS NOT NULL AND ended_at IS NULL
;;
CREATE TABLE jobs.log (
  job_id VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  tenant VARCHAR NOT NULL,
  type VARCHAR NOT NULL,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  data JSONB NOT NULL,
  CONSTRAINT pk_log PRIMARY KEY (job_id, seq)
)
;;
CREATE TABLE jobs.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE jobs.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE jobs.tasks (
  job_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  task_id VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  needs TEXT[] NOT NULL,
  produces TEXT[] NOT NULL,
  group_number INTEGER NOT NULL,
  open_needs INTEGER NOT NULL,
  k INTEGER NOT NULL,
  votes JSONB NOT NULL,
  drawn INTEGER NOT NULL,
  running INTEGER NOT NULL,
  answer JSONB,
  winner VARCHAR,
  base INTEGER NOT NULL,
  behind INTEGER,
  entries JSONB NOT NULL,
  drawn_before INTEGER NOT NULL,
  conflicts INTEGER NOT NULL,
  thrown_out JSONB NOT NULL,
  reason VARCHAR NOT NULL,
  CONSTRAINT pk_tasks PRIMARY KEY (job_id, number),
  CONSTRAINT ck_tasks_state_known CHECK (state IN ('blocked', 'ready', 'running', 'merging', 'decided', 'failed', 'withdrawn'))
)
 WITH (fillfactor = 70)
;;
CREATE INDEX ix_tasks_needs ON jobs.tasks USING gin (needs) WHERE state = 'blocked'
;;
CREATE INDEX ix_tasks_ready ON jobs.tasks (job_id, number) WHERE state = 'ready'
;;
CREATE UNIQUE INDEX ix_tasks_by_id ON jobs.tasks (job_id, task_id)
;;
CREATE TABLE notifier.deliveries (
  delivery_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  channel VARCHAR NOT NULL,
  recipient VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  pending BOOLEAN NOT NULL,
  rank INTEGER NOT NULL,
  topic VARCHAR NOT NULL,
  urgent BOOLEAN NOT NULL,
  tell_by TIMESTAMP WITH TIME ZONE,
  revision INTEGER NOT NULL,
  sent_revision INTEGER NOT NULL,
  version INTEGER NOT NULL,
  sent_version INTEGER NOT NULL,
  card JSONB NOT NULL,
  reference JSONB,
  joint VARCHAR DEFAULT '' NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  lease_until TIMESTAMP WITH TIME ZONE,
  due_at TIMESTAMP WITH TIME ZONE NOT NULL,
  updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
  error VARCHAR NOT NULL,
  alerted BOOLEAN NOT NULL,
  CONSTRAINT pk_deliveries PRIMARY KEY (delivery_id),
  CONSTRAINT ck_deliveries_state_known CHECK (state IN ('asleep', 'due', 'kept', 'sent', 'given_up', 'spared')),
  CONSTRAINT ck_deliveries_sent_not_ahead CHECK (sent_revision <= revision),
  CONSTRAINT ck_deliveries_sent_version_not_ahead CHECK (sent_version <= version),
  CONSTRAINT uq_deliveries_approval_id_channel_recipient UNIQUE (approval_id, channel, recipient)
)
;;
CREATE INDEX ix_deliveries_call ON notifier.deliveries (call_id)
;;
CREATE INDEX ix_deliveries_crowded ON notifier.deliveries (tenant, channel, recipient) WHERE pending AND (state = 'kept' OR card->>'similar' <> '0' OR card->>'held_back' <> '0')
;;
CREATE INDEX ix_deliveries_due ON notifier.deliveries (due_at) WHERE state = 'due'
;;
CREATE INDEX ix_deliveries_given_up ON notifier.deliveries (tenant, updated_at DESC, delivery_id DESC) WHERE state = 'given_up'
;;
CREATE INDEX ix_deliveries_in_place ON notifier.deliveries (delivery_id) WHERE pending AND state IN ('due', 'sent') AND split_part(channel, ':', 1) = 'slack'
;;
CREATE INDEX ix_deliveries_late ON notifier.deliveries (tell_by) WHERE pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept')
;;
CREATE INDEX ix_deliveries_message ON notifier.deliveries ((reference ->> 'channel'), (reference ->> 'ts')) WHERE reference ->> 'ts' IS NOT NULL
;;
CREATE INDEX ix_deliveries_newest ON notifier.deliveries (tenant, updated_at DESC, delivery_id DESC) WHERE state NOT IN ('asleep', 'spared')
;;
CREATE INDEX ix_deliveries_stopped ON notifier.deliveries (delivery_id) WHERE pending AND state IN ('due', 'sent') AND card->>'stopped' <> ''
;;
CREATE INDEX ix_deliveries_untold ON notifier.deliveries (approval_id) WHERE pending AND NOT alerted AND state = 'given_up'
;;
CREATE INDEX ix_deliveries_waiting ON notifier.deliveries (tenant, channel, recipient) WHERE pending AND state IN ('due', 'kept', 'sent')
;;
CREATE TABLE notifier.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON notifier.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE notifier.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE notifier.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON notifier.inbox USING brin (handled_at)
;;
COMMENT ON TABLE notifier.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE notifier.links (
  token_hash VARCHAR NOT NULL,
  mail_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  code_hash VARCHAR DEFAULT '' NOT NULL,
  revision INTEGER NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_links PRIMARY KEY (token_hash),
  CONSTRAINT ck_links_token_hashed CHECK (length(token_hash) = 64),
  CONSTRAINT ck_links_of_a_person CHECK (starts_with(person, 'person:'))
)
;;
CREATE INDEX ix_links_expires ON notifier.links (expires_at)
;;
CREATE INDEX ix_links_mail ON notifier.links (mail_id)
;;
CREATE TABLE notifier.mails (
  mail_id VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  channel VARCHAR NOT NULL,
  recipient VARCHAR NOT NULL,
  person VARCHAR NOT NULL,
  made_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_mails PRIMARY KEY (mail_id, approval_id)
)
;;
CREATE TABLE notifier.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE notifier.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE notifier.paces (
  tenant VARCHAR NOT NULL,
  channel VARCHAR NOT NULL,
  free_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_paces PRIMARY KEY (tenant, channel)
)
;;
CREATE TABLE notifier.webhook_events (
  event_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  webhook VARCHAR NOT NULL,
  type VARCHAR NOT NULL,
  body VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  lease_until TIMESTAMP WITH TIME ZONE,
  due_at TIMESTAMP WITH TIME ZONE NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE NOT NULL,
  error VARCHAR NOT NULL,
  CONSTRAINT pk_webhook_events PRIMARY KEY (event_id),
  CONSTRAINT ck_webhook_events_state_known CHECK (state IN ('due', 'sent', 'given_up'))
)
;;
CREATE INDEX ix_webhook_events_due ON notifier.webhook_events (webhook, tenant, due_at) WHERE state = 'due' AND lease_until IS NULL
;;
CREATE INDEX ix_webhook_events_given_up ON notifier.webhook_events (tenant, created_at DESC, event_id DESC) WHERE state = 'given_up'
;;
CREATE INDEX ix_webhook_events_leases ON notifier.webhook_events (lease_until) WHERE state = 'due' AND lease_until IS NOT NULL
;;
CREATE INDEX ix_webhook_events_newest ON notifier.webhook_events (tenant, created_at DESC, event_id DESC)
;;
CREATE TABLE policy.activations (
  activation_id VARCHAR NOT NULL,
  kind VARCHAR DEFAULT 'rulebook' NOT NULL,
  digest VARCHAR NOT NULL,
  activated_by VARCHAR NOT NULL,
  activated_at TIMESTAMP WITH TIME ZONE NOT NULL,
  source VARCHAR NOT NULL,
  diff VARCHAR NOT NULL,
  CONSTRAINT pk_activations PRIMARY KEY (activation_id),
  CONSTRAINT ck_activations_kind_known CHECK (kind IN ('rulebook', 'directory'))
)
;;
CREATE INDEX ix_activations_digest ON policy.activations (digest)
;;
CREATE INDEX ix_activations_newest ON policy.activations (activated_at DESC)
;;
CREATE TABLE policy.counters (
  counter_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  rule VARCHAR NOT NULL,
  measure VARCHAR NOT NULL,
  per VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  touched_at TIMESTAMP WITH TIME ZONE NOT NULL,
  CONSTRAINT pk_counters PRIMARY KEY (counter_id),
  CONSTRAINT ck_counters_per_known CHECK (per IN ('conversation', 'requester', 'agent', 'tenant'))
)
;;
CREATE INDEX ix_counters_oldest ON policy.counters (touched_at)
;;
CREATE TABLE policy.grants (
  grant_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  approval_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  key_id VARCHAR,
  rule VARCHAR NOT NULL,
  tool VARCHAR NOT NULL,
  schema_digest VARCHAR NOT NULL,
  tool_digest VARCHAR NOT NULL,
  scope VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  arguments VARCHAR NOT NULL,
  shown_arguments VARCHAR NOT NULL,
  bounds JSONB NOT NULL,
  rulebook_digest VARCHAR NOT NULL,
  uses INTEGER NOT NULL,
  uses_left INTEGER NOT NULL,
  given_at TIMESTAMP WITH TIME ZONE NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
  revoked_at TIMESTAMP WITH TIME ZONE,
  revoked_by VARCHAR,
  void_at TIMESTAMP WITH TIME ZONE,
  void_reason VARCHAR,
  CONSTRAINT pk_grants PRIMARY KEY (grant_id),
  CONSTRAINT ck_grants_scope_known CHECK (scope IN ('conversation', 'agent', 'tenant')),
  CONSTRAINT ck_grants_uses_left_in_range CHECK (uses_left BETWEEN 0 AND uses),
  CONSTRAINT ck_grants_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL)),
  CONSTRAINT ck_grants_void_with_reason CHECK ((void_at IS NULL) = (void_reason IS NULL)),
  CONSTRAINT ck_grants_expires_later CHECK (expires_at > given_at),
  CONSTRAINT uq_grants_approval_id UNIQUE (approval_id)
)
;;
CREATE INDEX ix_grants_newest ON policy.grants (tenant, given_at DESC, grant_id DESC)
;;
CREATE INDEX ix_grants_usable ON policy.grants (tenant, tool, scope, subject) WHERE uses_left > 0 AND revoked_at IS NULL
;;
CREATE TABLE policy.history (
  id BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant TEXT NOT NULL,
  machine TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  call_id TEXT,
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  actor TEXT NOT NULL,
  message_id TEXT,
  at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  detail JSONB DEFAULT '{}' NOT NULL,
  salt UUID DEFAULT gen_random_uuid(),
  CONSTRAINT pk_history PRIMARY KEY (id)
)
;;
CREATE INDEX ix_history_call_id ON policy.history (call_id) WHERE call_id IS NOT NULL
;;
COMMENT ON TABLE policy.history IS 'Append-only: every change of a state, written in the transaction that made it.'
;;
CREATE TABLE policy.inbox (
  message_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  handled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  CONSTRAINT pk_inbox PRIMARY KEY (message_id, queue)
)
;;
CREATE INDEX ix_inbox_handled_at ON policy.inbox USING brin (handled_at)
;;
COMMENT ON TABLE policy.inbox IS 'Ids of the events this service has handled; a second delivery finds its id here.'
;;
CREATE TABLE policy.outbox (
  id TEXT NOT NULL,
  exchange TEXT NOT NULL,
  key TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  mandatory BOOLEAN NOT NULL,
  events TEXT[] NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
  due_at TIMESTAMP WITH TIME ZONE DEFAULT now() + interval '5 seconds' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
)
;;
COMMENT ON TABLE policy.outbox IS 'What one commit sends one way; a row goes when all of it is confirmed, the relay takes what is due.'
;;
CREATE TABLE policy.verdicts (
  verdict_id VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  requester VARCHAR NOT NULL,
  tool VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  schema_digest VARCHAR NOT NULL,
  effect VARCHAR NOT NULL,
  rule VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  model_reason VARCHAR NOT NULL,
  rulebook_digest VARCHAR NOT NULL,
  judged_at TIMESTAMP WITH TIME ZONE NOT NULL,
  facts VARCHAR,
  approval VARCHAR,
  terms VARCHAR,
  CONSTRAINT pk_verdicts PRIMARY KEY (verdict_id),
  CONSTRAINT ck_verdicts_effect_known CHECK (effect IN ('allow', 'require_approval', 'stage', 'deny')),
  CONSTRAINT uq_verdicts_call_id UNIQUE (call_id)
)
;;
CREATE INDEX ix_verdicts_conversation ON policy.verdicts (tenant, conversation_id, tool, judged_at)
;;
CREATE INDEX ix_verdicts_newest ON policy.verdicts (tenant, judged_at DESC, verdict_id DESC)
;;
CREATE INDEX ix_verdicts_requester ON policy.verdicts (tenant, requester, tool, judged_at)
;;
CREATE TABLE policy.watched_calls (
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  requester VARCHAR NOT NULL,
  tool VARCHAR NOT NULL,
  arguments_digest VARCHAR NOT NULL,
  veto_on VARCHAR NOT NULL,
  veto_within VARCHAR NOT NULL,
  window_seconds INTEGER NOT NULL,
  approval VARCHAR NOT NULL,
  asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
  denied_at TIMESTAMP WITH TIME ZONE,
  denied_by VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  until TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_watched_calls PRIMARY KEY (call_id, arguments_digest),
  CONSTRAINT ck_watched_calls_veto_on_known CHECK (veto_on IN ('arguments', 'tool')),
  CONSTRAINT ck_watched_calls_veto_within_known CHECK (veto_within IN ('conversation', 'requester', 'tenant')),
  CONSTRAINT ck_watched_calls_window_not_empty CHECK (window_seconds > 0),
  CONSTRAINT ck_watched_calls_denied_until CHECK ((denied_at IS NULL) = (until IS NULL))
)
;;
CREATE INDEX ix_watched_calls_oldest ON policy.watched_calls (until) WHERE until IS NOT NULL
;;
CREATE INDEX ix_watched_calls_same ON policy.watched_calls (tenant, conversation_id, tool)
;;
CREATE INDEX ix_watched_calls_wide ON policy.watched_calls (tenant, tool) WHERE veto_within <> 'conversation'
;;
CREATE TABLE agent.facts (
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  text VARCHAR NOT NULL,
  learned_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  CONSTRAINT pk_facts PRIMARY KEY (call_id),
  CONSTRAINT fk_facts_call_id FOREIGN KEY(call_id) REFERENCES agent.tool_calls (call_id)
)
;;
CREATE INDEX ix_facts_conversation ON agent.facts (conversation_id, number)
;;
CREATE TABLE agent.messages (
  conversation_id VARCHAR NOT NULL,
  message_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  tenant VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  author JSONB NOT NULL,
  cause JSONB NOT NULL,
  turn_id VARCHAR,
  step INTEGER,
  call_id VARCHAR,
  by_operator BOOLEAN DEFAULT false NOT NULL,
  posted_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  CONSTRAINT pk_messages PRIMARY KEY (conversation_id, message_id),
  CONSTRAINT ck_messages_no_turn_by_operator CHECK (NOT by_operator OR turn_id IS NULL),
  CONSTRAINT fk_messages_conversation_id FOREIGN KEY(conversation_id) REFERENCES agent.conversations (conversation_id),
  CONSTRAINT fk_messages_call_id FOREIGN KEY(call_id) REFERENCES agent.tool_calls (call_id)
)
;;
CREATE INDEX ix_messages_by_operator ON agent.messages (conversation_id) WHERE by_operator
;;
CREATE INDEX ix_messages_queued ON agent.messages (conversation_id) WHERE turn_id IS NULL
;;
CREATE TABLE agent.pseudonyms (
  conversation_id VARCHAR NOT NULL,
  value_sha256 VARCHAR NOT NULL,
  pseudonym_sha256 VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  value VARCHAR NOT NULL,
  pseudonym VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  canonical VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  made_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  CONSTRAINT pk_pseudonyms PRIMARY KEY (conversation_id, value_sha256),
  CONSTRAINT uq_pseudonyms_conversation_id_pseudonym_sha256 UNIQUE (conversation_id, pseudonym_sha256),
  CONSTRAINT fk_pseudonyms_conversation_id FOREIGN KEY(conversation_id) REFERENCES agent.conversations (conversation_id) ON DELETE CASCADE
)
;;
CREATE TABLE agent.staged_entries (
  call_id VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  workspace_id VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  digest VARCHAR NOT NULL,
  decide VARCHAR NOT NULL,
  commit_id VARCHAR,
  keys JSONB NOT NULL,
  CONSTRAINT pk_staged_entries PRIMARY KEY (call_id),
  CONSTRAINT fk_staged_entries_call_id FOREIGN KEY(call_id) REFERENCES agent.tool_calls (call_id)
)
;;
CREATE INDEX ix_staged_entries_conversation ON agent.staged_entries (conversation_id)
;;
CREATE TABLE agent.turns (
  turn_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  author JSONB NOT NULL,
  started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
  cause JSONB NOT NULL,
  state VARCHAR NOT NULL,
  step INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  takeovers INTEGER NOT NULL,
  open_calls INTEGER NOT NULL,
  paused BOOLEAN NOT NULL,
  lease_until TIMESTAMP WITH TIME ZONE,
  message_id VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  stopped_number INTEGER,
  final_answer JSONB,
  ended_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_turns PRIMARY KEY (turn_id),
  CONSTRAINT ck_turns_state_known CHECK (state IN ('thinking', 'waiting', 'finished', 'failed', 'stopped')),
  CONSTRAINT ck_turns_ended_iff_final CHECK ((ended_at IS NOT NULL) = (state IN ('failed', 'finished', 'stopped'))),
  CONSTRAINT ck_turns_leased_iff_thinking CHECK ((lease_until IS NOT NULL) = (state = 'thinking')),
  CONSTRAINT ck_turns_waiting_iff_open_calls CHECK ((open_calls > 0) = (state = 'waiting')),
  CONSTRAINT fk_turns_conversation_id FOREIGN KEY(conversation_id) REFERENCES agent.conversations (conversation_id)
)
 WITH (fillfactor = 50)
;;
CREATE INDEX ix_turns_leases ON agent.turns USING brin (lease_until) WITH (pages_per_range = 16, autosummarize = on)
;;
CREATE INDEX ix_turns_stopped ON agent.turns (conversation_id) WHERE stopped_number IS NOT NULL
;;
CREATE UNIQUE INDEX ux_turns_live ON agent.turns (conversation_id) WHERE ended_at IS NULL
;;
CREATE TABLE executor.workspace_blobs (
  workspace_id VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  content BYTEA NOT NULL,
  CONSTRAINT pk_workspace_blobs PRIMARY KEY (workspace_id, digest),
  CONSTRAINT fk_workspace_blobs_workspace_id FOREIGN KEY(workspace_id) REFERENCES executor.workspaces (workspace_id) ON DELETE CASCADE
)
;;
CREATE TABLE executor.workspace_entries (
  call_id VARCHAR NOT NULL,
  workspace_id VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  tool VARCHAR NOT NULL,
  pool VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  keys TEXT[] NOT NULL,
  summary VARCHAR NOT NULL,
  decide VARCHAR NOT NULL,
  on_failure VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  commit_call_id VARCHAR,
  permit VARCHAR,
  data JSONB,
  ui_blocks JSONB DEFAULT '[]' NOT NULL,
  handover VARCHAR DEFAULT '' NOT NULL,
  error VARCHAR DEFAULT '' NOT NULL,
  staged_at TIMESTAMP WITH TIME ZONE NOT NULL,
  ended_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_workspace_entries PRIMARY KEY (call_id),
  CONSTRAINT ck_workspace_entries_state_known CHECK (state IN ('waiting', 'kept', 'left_out', 'committed', 'conflicted', 'succeeded', 'failed', 'refused', 'unknown', 'discarded')),
  CONSTRAINT ck_workspace_entries_kind_known CHECK (kind IN ('change', 'call')),
  CONSTRAINT ck_workspace_entries_decide_known CHECK (decide IN ('turn', 'on_request', 'each')),
  CONSTRAINT ck_workspace_entries_on_failure_known CHECK (on_failure IN ('stop', 'go_on')),
  CONSTRAINT fk_workspace_entries_workspace_id FOREIGN KEY(workspace_id) REFERENCES executor.workspaces (workspace_id) ON DELETE CASCADE,
  CONSTRAINT uq_workspace_entries_workspace_id_position UNIQUE (workspace_id, position)
)
;;
CREATE TABLE policy.grant_uses (
  call_id VARCHAR NOT NULL,
  grant_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  used_at TIMESTAMP WITH TIME ZONE NOT NULL,
  returned_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_grant_uses PRIMARY KEY (call_id),
  CONSTRAINT fk_grant_uses_grant_id FOREIGN KEY(grant_id) REFERENCES policy.grants (grant_id)
)
;;
CREATE INDEX ix_grant_uses_grant ON policy.grant_uses (grant_id)
;;
CREATE TABLE policy.reservations (
  counter_id VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  tenant VARCHAR NOT NULL,
  amount NUMERIC NOT NULL,
  reserved_at TIMESTAMP WITH TIME ZONE NOT NULL,
  released_at TIMESTAMP WITH TIME ZONE,
  released_as VARCHAR,
  CONSTRAINT pk_reservations PRIMARY KEY (counter_id, call_id),
  CONSTRAINT ck_reservations_amount_not_negative CHECK (amount >= 0),
  CONSTRAINT ck_reservations_released_with_kind CHECK ((released_at IS NULL) = (released_as IS NULL)),
  CONSTRAINT fk_reservations_counter_id FOREIGN KEY(counter_id) REFERENCES policy.counters (counter_id)
)
;;
CREATE INDEX ix_reservations_call ON policy.reservations (call_id)
;;
CREATE INDEX ix_reservations_oldest ON policy.reservations (reserved_at)
;;
CREATE INDEX ix_reservations_window ON policy.reservations (counter_id, reserved_at) INCLUDE (amount) WHERE released_at IS NULL
;;
CREATE TABLE executor.workspace_changes (
  call_id VARCHAR NOT NULL,
  ordinal INTEGER NOT NULL,
  workspace_id VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  pack VARCHAR NOT NULL,
  key VARCHAR NOT NULL,
  base VARCHAR,
  base_size INTEGER,
  base_mode INTEGER,
  after VARCHAR,
  after_size INTEGER,
  after_mode INTEGER,
  summary VARCHAR NOT NULL,
  diff VARCHAR NOT NULL,
  cut BOOLEAN NOT NULL,
  opaque BOOLEAN NOT NULL,
  added INTEGER NOT NULL,
  removed INTEGER NOT NULL,
  CONSTRAINT pk_workspace_changes PRIMARY KEY (call_id, ordinal),
  CONSTRAINT fk_workspace_changes_call_id FOREIGN KEY(call_id) REFERENCES executor.workspace_entries (call_id) ON DELETE CASCADE,
  CONSTRAINT ck_workspace_changes_changes_something CHECK (base IS NOT NULL OR after IS NOT NULL)
)
;;
CREATE INDEX ix_workspace_changes_key ON executor.workspace_changes (workspace_id, pack, key, position)
