-- Put in front of every script, after its first line (jobs/redis/scripts.py); `prefix`, `int` and `now` come from there.
-- Every key starts with the prefix; single-node Redis, so keys are made here rather than declared:
--   job:<id>              hash    the job: control fields, and JSON for its request, progress, outcome and error
--   job:<id>:events       stream  its changes; goes EVENTS_TTL_S after the job's end
--   job:<id>:findings     hash    what a benchmark has measured so far; survives attempts, goes with the job
--   job:<id>:matrices     hash    matrices in its record, packed (jobs/matrices/packed.py): operands a and b, product c
--   packed                zset    ended jobs with matrices in their record, by the time when these go
--   queued:<queue>        zset    queued jobs by publication number: the order their messages were sent in
--   batch:<queue>:<key>   zset    those of them that may be computed in one launch, by the same number
--   numbers               hash    per queue: the last publication number
--   started               hash    per queue: the highest number of a job started, and (<queue>:sent) when it was sent
--   leases                zset    running jobs by the end of their lease
--   jobs:all, jobs:<state>, and each with :<owner>   zset  jobs in order of creation, for listings, counts, quotas
--   seq                   string  the last number given to a job: its place in listings
--   finished              zset    ended jobs by their end
--   dead, dead:<owner>    zset    jobs that used up their attempts, by their end
--   idem:<digest>         hash    the job bound to an Idempotency-Key, and the request's fingerprint
--   hold:<digest>         string  who works under that key now
--   job:<id>:dependents   zset    jobs that wait for its product, in order of creation: see common_chains.lua
--   unsettled             zset    ended jobs that still have such, by the time of the last step that saw to some
--   answers:<service>     channel a job that succeeded, whole, for the service process whose caller waits for it
--   changes               channel "<id> <version> <state>" at every change
-- A script is one step in Redis and in its append-only file: after a crash all of a change is there, or none of it.
-- Times are microseconds of the server's clock.
local EVENTS_KEPT, EVENTS_TTL_S = 1000, 3600

local function job_key(id)
  return prefix .. 'job:' .. id
end

local function events_key(id)
  return job_key(id) .. ':events'
end

local function findings_key(id)
  return job_key(id) .. ':findings'
end

-- What a script that queues a job is given last: how the broker's lists are called, and the message with places for what
-- differs from job to job (jobs/queue.py).
local LISTS, MESSAGE = ARGV[#ARGV - 1], ARGV[#ARGV]
local HARD_LIMIT_MARGIN_S = 10 -- as in jobs/ledger/interface.py

local function matrices_key(id)
  return job_key(id) .. ':matrices'
end

local function queued_key(queue)
  return prefix .. 'queued:' .. queue
end

local function batch_key(job)
  return prefix .. 'batch:' .. job.queue .. ':' .. job.batch
end

local CONTROL = {
  'state', 'attempt', 'version', 'owner', 'seq', 'queue', 'runs', 'timeout', 'started', 'seen', 'number', 'first',
  'queued', 'idem', 'held', 'ttl', 'batch', 'reply_to', 'waits', 'dependents',
}

-- A job's control fields, as strings; nil where there is no such job.
local function read(id)
  local values = redis.call('HMGET', job_key(id), unpack(CONTROL))
  if not values[1] then
    return nil
  end
  local job = {id = id}
  for i, field in ipairs(CONTROL) do
    job[field] = values[i]
  end
  return job
end

-- The job if it is this owner's ('' is anyone's), else nil.
local function read_owned(id, owner)
  local job = read(id)
  if job and (owner == '' or owner == job.owner) then
    return job
  end
  return nil
end

-- The job if this attempt runs it, else nil: the fence that stops a late worker.
local function read_running(id, attempt)
  local job = read(id)
  if job and job.state == 'running' and job.attempt == attempt then
    return job
  end
  return nil
end

-- What Python makes a record of: the outcome of the script, the hash, and the place in the queue (-1: in none).
local function reply(outcome, id)
  local queue = redis.call('HGET', job_key(id), 'queue')
  local place = queue and redis.call('ZRANK', queued_key(queue), id)
  return {outcome, redis.call('HGETALL', job_key(id)), place or -1}
end

local function per_owner(job, name)
  return {prefix .. name, prefix .. name .. ':' .. job.owner}
end

-- Sends the job's hash and then its product, each string after its length, to the service process whose caller waits.
local function answer(job)
  local strings = redis.call('HGETALL', job_key(job.id))
  strings[#strings + 1] = job.answer
  for i, text in ipairs(strings) do
    strings[i] = struct.pack('<I4', #text) .. text
  end
  redis.call('PUBLISH', prefix .. 'answers:' .. job.reply_to, table.concat(strings))
end

-- Tells the job's event stream and whoever listens. `more` is JSON to append, such as ',"error":{…}'.
local function announce(job, event, more)
  local data = string.format('{"state":"%s","attempt":%s,"version":%s%s}', job.state, job.attempt, job.version, more)
  redis.call('XADD', events_key(job.id), 'MAXLEN', '~', EVENTS_KEPT, '*', 'event', event, 'data', data)
  if job.answer then -- before its caller is woken to ask for it
    answer(job)
  end
  redis.call('PUBLISH', prefix .. 'changes', job.id .. ' ' .. job.version .. ' ' .. job.state)
end

-- Every change of state goes through here. `fields` are further name, value pairs to write.
local function enter(job, state, more, fields)
  local old = job.state
  job.state, job.version = state, int(job.version + 1)
  redis.call('HSET', job_key(job.id), 'state', state, 'version', job.version, unpack(fields))
  if old == 'queued' and job.batch then
    redis.call('ZREM', batch_key(job), job.id)
  end
  if old then
    for _, key in ipairs(per_owner(job, 'jobs:' .. old)) do
      redis.call('ZREM', key, job.id)
    end
  end
  for _, key in ipairs(per_owner(job, 'jobs:' .. state)) do
    redis.call('ZADD', key, job.seq, job.id)
  end
  announce(job, state, more)
end

-- The message of a queued job, as Celery reads it.
local function message_of(job)
  local seconds = job.timeout / 1e6
  local places = {
    job = job.id, attempt = job.attempt, queue = job.queue, number = int(job.number),
    soft = string.format('%.3f', seconds), hard = string.format('%.3f', seconds + HARD_LIMIT_MARGIN_S),
  }
  return (string.gsub(MESSAGE, '@(%l+)@', places))
end

-- Gives a queued job its next number and sends its message. Both are one step, so the broker's list is in the order of
-- the numbers.
local function send(job)
  job.number = redis.call('HINCRBY', prefix .. 'numbers', job.queue, 1)
  redis.call('ZADD', queued_key(job.queue), job.number, job.id)
  redis.call('LPUSH', LISTS .. job.queue, message_of(job))
  if job.batch and job.attempt == '1' then -- what failed once is tried again alone
    redis.call('ZADD', batch_key(job), job.number, job.id)
  end
  return job.number
end

-- `first` is the number of the earliest message of this attempt: see claim.lua.
local function enqueue(job, at, more)
  local number = send(job)
  enter(job, 'queued', more, {
    'attempt', job.attempt, 'runs', job.runs, 'number', number, 'first', number,
    'published', int(at), 'queued', int(at),
  })
end

-- What the matrices in a job's record take is counted among the bytes that the stores keep: the keys of
-- jobs/matrices/lua/common.lua. `held` is what a job is charged.
local function charge(owner, bytes)
  for _, field in ipairs({'all', 'of:' .. owner}) do
    if redis.call('HINCRBY', prefix .. 'matrices:bytes', field, int(bytes)) <= 0 then
      redis.call('HDEL', prefix .. 'matrices:bytes', field)
    end
  end
end

local function hold(job, bytes)
  local before = tonumber(job.held or 0)
  if bytes ~= before then
    charge(job.owner, bytes - before)
    redis.call('HSET', job_key(job.id), 'held', int(bytes))
    job.held = bytes
  end
end

local function drop_matrices(job)
  redis.call('DEL', matrices_key(job.id))
  redis.call('ZREM', prefix .. 'packed', job.id)
  hold(job, 0)
end

local settle_dependents, stop_waiting -- in common_chains.lua

local function finish(job, state, at, more, fields)
  if job.waits then
    stop_waiting(job)
  end
  if tonumber(job.held or 0) > 0 then
    redis.call('ZADD', prefix .. 'packed', int(at + job.ttl), job.id)
  end
  redis.call('ZREM', prefix .. 'leases', job.id)
  redis.call('ZREM', queued_key(job.queue), job.id)
  redis.call('ZADD', prefix .. 'finished', int(at), job.id)
  redis.call('HSET', job_key(job.id), 'finished', int(at))
  enter(job, state, more, fields)
  -- A stream that may grow holds 4 KB in reserve; its copy holds what is in it.
  local events = events_key(job.id)
  redis.call('COPY', events, events .. ':copy')
  redis.call('RENAME', events .. ':copy', events)
  redis.call('EXPIRE', events, EVENTS_TTL_S)
  if job.dependents then
    settle_dependents(job, at)
  end
end

-- A running job with a run left goes back into its queue. Without one it fails, and is a dead letter if `dead`.
local function retry_or_fail(job, at, error, error_type, max_attempts, dead)
  local more = ',"error":' .. error
  if tonumber(job.runs) < tonumber(max_attempts) then
    redis.call('ZREM', prefix .. 'leases', job.id)
    redis.call('HDEL', job_key(job.id), 'progress')
    job.attempt = int(job.attempt + 1)
    enqueue(job, at, more)
    return
  end
  finish(job, 'failed', at, more, {'error', error, 'error_type', error_type})
  if dead then
    for _, key in ipairs(per_owner(job, 'dead')) do
      redis.call('ZADD', key, int(at), job.id)
    end
  end
end

-- Removes every trace of a job, but for its queue: it must have ended.
local function forget(job)
  drop_matrices(job)
  redis.call('DEL', job_key(job.id), events_key(job.id), findings_key(job.id))
  redis.call('ZREM', prefix .. 'finished', job.id)
  for _, name in ipairs({'jobs:all', 'jobs:' .. job.state, 'dead'}) do
    for _, key in ipairs(per_owner(job, name)) do
      redis.call('ZREM', key, job.id)
    end
  end
  if job.idem then
    local bound = prefix .. 'idem:' .. job.idem
    if redis.call('HGET', bound, 'job') == job.id then
      redis.call('DEL', bound)
    end
  end
end
