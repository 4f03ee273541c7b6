-- Put after common.lua: jobs whose operands are the products of other jobs. Their hash has more fields:
--   a_job, b_job, c_job   the job whose product the operand is
--   a_attempt, …          the attempt that made it, once it has succeeded: the product is the job's operand from then on
--   waits                 1 while an operand is not there: the job is queued, but in no queue, and no message is sent; 0
--                         once it came into its queue
--   lists, message, unmet what a script that queues the job needs, and its error should it fail; while it waits
-- A job that others wait for has `dependents` in its hash. One whose operand c is a job's product has a C in `in_record`.
local SETTLED_AT_ONCE = 64 -- jobs in one step; the sweeper goes on
local ENDS = {failed = 'failed', cancelled = 'was cancelled'}
local NAMES, settled = {'a', 'b', 'c'}, 0
local need_product -- in common_needs.lua

local function dependents_key(id)
  return job_key(id) .. ':dependents'
end

-- The jobs that operands name (`named`: by operand, '' for none), each with the room that its product takes in a
-- record; or nil, and why not.
local function read_sources(named, owner)
  local sources = {}
  for _, name in ipairs(NAMES) do
    local id = named[name]
    if id ~= '' then
      local job = read_owned(id, owner)
      if not job then
        return nil, {'operand_missing', name}
      elseif ENDS[job.state] then
        return nil, {'operand_failed', name, id, ENDS[job.state]}
      end
      local room = tonumber(redis.call('HGET', job_key(id), 'product_bytes'))
      if job.state == 'succeeded' and room > 0 then
        room = redis.call('HSTRLEN', matrices_key(id), 'c')
        if room == 0 then
          return nil, {'operand_missing', name}
        end
      end
      sources[#sources + 1] = {name = name, job = job, room = room}
    end
  end
  return sources
end

-- What a job holds, and which of its operands are in its record, with the products of these.
local function with_products(sources, held, in_record)
  local there, ordered, last = {}, '', ''
  for name in string.gmatch(in_record, '.') do
    there[name] = true
  end
  for _, each in ipairs(sources) do
    held, there[each.name] = held + each.room, each.room > 0
    last = each.name == 'c' and 'C' or ''
  end
  for _, name in ipairs(NAMES) do
    ordered = ordered .. (there[name] and name or '')
  end
  return held, ordered .. last
end

-- The product of a job that succeeded becomes an operand: a small one is copied into the record, which was charged
-- `room` for it.
local function take_product(job, name, source, room)
  local product = redis.call('HGET', matrices_key(source.id), 'c')
  if product then
    write('HSET', matrices_key(job.id), FIELD[name], product)
    hold(job, tonumber(job.held or 0) + #product - room)
  else
    need_product(job, name, source)
  end
  set(job, name .. '_attempt', source.attempt)
end

-- Takes the products that are there. Where one is not, the job waits for it, and this is true.
local function wait_for_products(job, sources, at, unmet)
  local waits = false
  for _, each in ipairs(sources) do
    local source = each.job
    set(job, each.name .. '_job', source.id)
    if source.state == 'succeeded' then
      take_product(job, each.name, source, each.room)
    else
      waits = true
      write('ZADD', dependents_key(source.id), job.seq, job.id)
      set(source, 'dependents', 1)
    end
  end
  if waits then
    enter(job, 'queued', '', 'attempt', job.attempt, 'runs', job.runs, 'number', 0, 'first', 0, 'published', at,
      'queued', at, 'waits', 1, 'lists', LISTS, 'message', MESSAGE, 'unmet', unmet)
  end
  return waits
end

-- The operands of a job that are not there, as `read_sources` takes them.
local function missing_products(id)
  local missing = {}
  local v = redis.call('HMGET', job_key(id), 'a_job', 'b_job', 'c_job', 'a_attempt', 'b_attempt', 'c_attempt')
  for i, name in ipairs(NAMES) do
    missing[name] = not v[i + #NAMES] and v[i] or ''
  end
  return missing
end

-- The first operand that should be in the job's record and is not: its time there was up. One that is still to come is
-- not missed.
local function missing_in_record(job)
  local to_come = missing_products(job.id)
  for name in string.gmatch(job.in_record, '%l') do
    if to_come[name] == '' and redis.call('HEXISTS', matrices_key(job.id), FIELD[name]) == 0 then
      return name
    end
  end
  return nil
end

-- What it still waits for need not see to it. At once, for `settle_dependents` may come to that in the same step.
stop_waiting = function(job)
  for _, source in pairs(missing_products(job.id)) do
    if source ~= '' then
      redis.call('ZREM', dependents_key(source), job.id)
    end
  end
  write('HDEL', job_key(job.id), 'waits', 'lists', 'message', 'unmet')
  job.waits = false
end

local function fail_dependent(job, source, at, unmet)
  local places = {job = source.id, ['end'] = ENDS[source.state] or 'was deleted'}
  local error = string.gsub(unmet, '@(%l+)@', places)
  finish(job, 'failed', at, ',"error":' .. error, {error = error}, 'error', error,
    'error_type', cjson.decode(error).type)
end

-- The end of the one job that a waiting job waits for, or of one of several.
local function settle_dependent(job, source, at)
  local lists, message, unmet = unpack(redis.call('HMGET', job_key(job.id), 'lists', 'message', 'unmet'))
  local room = tonumber(redis.call('HGET', job_key(source.id), 'product_bytes') or 0)
  local is_gone = room > 0 and redis.call('HEXISTS', matrices_key(source.id), 'c') == 0
  if source.state ~= 'succeeded' or is_gone then
    return fail_dependent(job, source, at, unmet)
  end
  local missing = missing_products(job.id)
  for name, id in pairs(missing) do
    if id == source.id then
      take_product(job, name, source, room)
      missing[name] = ''
    end
  end
  if missing.a .. missing.b .. missing.c == '' then
    write('HDEL', job_key(job.id), 'lists', 'message', 'unmet')
    set(job, 'waits', 0)
    job.waits, job.has_waited = false, true
    LISTS, MESSAGE = lists, message -- scripts that end jobs are not given them
    enqueue(job, at, '')
  end
end

-- After a job's end: those that wait for it are queued, or fail as it did. What was gathered before is carried out first,
-- for its product is read here, and one that waits for two jobs may be come upon after each.
settle_dependents = function(source, at)
  carry_out()
  while settled < SETTLED_AT_ONCE do
    local id = redis.call('ZPOPMIN', dependents_key(source.id))[1]
    if not id then
      write('HDEL', job_key(source.id), 'dependents')
      write('ZREM', prefix .. 'unsettled', source.id)
      return
    end
    settled = settled + 1
    local job = read(id)
    if job then
      settle_dependent(job, source, at)
    end
  end
  write('ZADD', prefix .. 'unsettled', at, source.id)
end
