#!lua
-- Records jobs as queued, sends their messages, or will once their operands are there, and binds their Idempotency-Keys;
-- a reply for each. Refused while Redis is out of memory. The arguments of each job come after their number.
local STORED = 34 -- from here on id, element type, shape and bytes of each operand that is stored for the job

-- Why it is not recorded, unless it is already.
local function refused(id, why)
  if redis.call('EXISTS', job_key(id)) == 0 then
    return why
  end
  carry_out()
  return reply('bound', id)
end

-- The job that the key is bound to, as it is now, or that the key was for another request; nil for neither.
local function bound_before(bound, fingerprint)
  local first, its_fingerprint = unpack(redis.call('HMGET', bound, 'job', 'fingerprint'))
  if first and its_fingerprint ~= fingerprint then
    return {'reused'}
  elseif first and redis.call('EXISTS', job_key(first)) == 1 then
    return reply('bound', first)
  end
  return nil
end

-- `from` and `last`: where its arguments are. A job without key, quota and operands of other jobs is recorded with
-- others before and after it.
local function record(ARGV, from, last, alone)
  local id, owner, kind, queue, timeout, request, asked, max_queued, limits, digest, fingerprint, bound_ms, a, b, c,
    product_bytes, ttl, most, most_of_owner, batch, reply_to, a_job, b_job, c_job, unmet, needs, most_ended,
    most_ended_of_owner, trace, room, used_ttl, stored_bytes, stored_ttl = unpack(ARGV, from, from + STORED - 2)
  local held = #a + #b + #c + product_bytes -- `needs`: stored matrices that are its operands, see common_needs.lua
  local number, bound = 'number:' .. queue, nil
  local most_waiting = tonumber(limits)
  if digest ~= '' or unmet ~= '' or not most_waiting or (known.waiting or 0) + (deltas.waiting or 0) >= most_waiting then
    carry_out() -- what is read below may be among what was gathered
  end
  if digest ~= '' then
    bound = prefix .. 'idem:' .. digest
    local before = bound_before(bound, fingerprint)
    if before then
      return before
    end
  end
  if not (known.waiting and known.seq and known[number]) then
    read_counts('seq', 'waiting', number, 'workers:' .. queue)
  end
  local waiting = known.waiting + (deltas.waiting or 0)
  if waiting >= tonumber(max_queued) then
    return refused(id, {'queue_full'})
  end
  local over, charge = over_quota(owner, limits, nil, waiting)
  if over then
    return refused(id, over)
  end
  local sources, in_record = {}, (a ~= '' and 'a' or '') .. (b ~= '' and 'b' or '') .. (c ~= '' and 'c' or '')
  if unmet ~= '' then
    local refusal
    sources, refusal = read_sources({a = a_job, b = b_job, c = c_job}, owner)
    if refusal then
      return refused(id, refusal)
    end
    held, in_record = with_products(sources, held, in_record)
  end
  local at, new = now(), {}
  for i = from + STORED - 1, last, 4 do
    new[ARGV[i]] = true
  end
  local missing = missing_operand(needs, owner, at, new)
  if missing then
    return refused(id, {'operand_missing', missing})
  end
  local seq, all = known.seq + (deltas.seq or 0) + 1, state_key('all', owner)
  if call('ZADD', all, 'NX', seq, id) == 0 then
    carry_out()
    return reply('bound', id)
  end
  local charge_it = alone and charge_within or owe_within
  local no_room = charge_it(owner, held + stored_bytes + room, tonumber(most), tonumber(most_of_owner))
  if no_room then
    redis.call('ZREM', all, id)
    return no_room
  end
  owe(owner, -room)
  count('seq', 1)
  local key = job_key(id)
  local job = {
    key = key, id = id, owner = owner, queue = queue, timeout = timeout, seq = seq, attempt = '1', runs = '0', version = '0',
    held = held, in_record = in_record,
  }
  set(job, 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout, 'request', request,
    'asked', asked, 'seq', seq, 'created', at, 'ttl', ttl, 'product_bytes', product_bytes, 'held', held,
    'in_record', in_record)
  if batch ~= '' then
    job.batch = batch
    set(job, 'batch', batch)
  end
  if trace ~= '' then
    set(job, 'trace', trace)
  end
  if reply_to ~= '' then
    set(job, 'reply_to', reply_to)
  end
  if in_record == 'ab' then -- as most have it
    write('HSET', matrices_key(id), 'a', a, 'b', b)
  else
    for field, matrix in pairs({a = a, b = b, [FIELD.c] = c}) do
      if matrix ~= '' then
        write('HSET', matrices_key(id), field, matrix)
      end
    end
  end
  charge_quota(job, charge)
  if bound then
    set(job, 'idem', digest)
    redis.call('HSET', bound, 'job', id, 'fingerprint', fingerprint)
    redis.call('PEXPIRE', bound, bound_ms)
  end
  for i = from + STORED - 1, last, 4 do
    local matrix, dtype, shape, bytes = unpack(ARGV, i, i + 3)
    new_matrix(write, matrix, owner, dtype, shape, bytes, matrix, at, at + stored_ttl)
  end
  use_operands(needs, owner, at, tonumber(used_ttl), new)
  need_operands(job, needs, new)
  is_recorded(owner, most_ended, most_ended_of_owner)
  if unmet ~= '' then
    if not wait_for_products(job, sources, at, unmet) then
      enqueue(job, at, '')
    end
    carry_out()
    return reply('chained', id)
  end
  enqueue(job, at, '')
  return {'recorded', seq, at, job.number, queue, owner, id, waiting}
end

-- The places in their queues of what was recorded.
local function tell_places(replies)
  local next_place = {} -- by queue: messages of one step are one after another
  for _, told in ipairs(replies) do
    if told[1] == 'recorded' then
      local number, queue, owner, id, waiting = unpack(told, 4, 8)
      local is_sent, place = tonumber(number) > 0, nil
      if is_sent then
        place = next_place[queue] or waiting == 0 and 0
      end
      place = place or place_of(queue, owner, number, id)
      if is_sent then
        next_place[queue] = place + 1
      end
      told[5], told[6], told[7], told[8] = place, nil, nil, nil
    end
  end
end

-- One that comes alone and needs nothing that is not in the call: the same as `record`, straight on, for gathering what
-- is written costs a step of one job a third of its time. nil, and nothing is written, where it is another.
local function record_usual(ARGV)
  local id, owner, kind, queue, timeout, request, asked, max_queued, limits, digest, _, _, a, b, c, product_bytes, ttl,
    most, most_of_owner, batch, reply_to, _, _, _, unmet, needs, most_ended, most_ended_of_owner, trace, room =
    unpack(ARGV, 3, STORED - 2)
  local most_waiting = tonumber(limits)
  if digest ~= '' or unmet ~= '' or needs ~= '' or room ~= '0' or batch == '' or a == '' or b == ''
    or c ~= '' or not most_waiting then
    return nil
  end
  local number_field, key, all = 'number:' .. queue, job_key(id), state_key('all', owner)
  local seq, waiting, number = unpack(call('HMGET', counts, 'seq', 'waiting', number_field))
  seq, waiting, number = (seq or 0) + 1, tonumber(waiting or 0), (number or 0) + 1
  local has_message = owner ~= OPEN and call('HGET', window_key(queue), owner)
  if has_message or waiting >= most_waiting or waiting >= tonumber(max_queued) then
    return nil
  end
  local at, held = now(), #a + #b + product_bytes
  local message = message_of({id = id, queue = queue, attempt = '1', timeout = timeout, number = int(number)})
  if call('ZADD', all, 'NX', seq, id) == 0 then
    return {reply('bound', id)}
  end
  local no_room = charge_within(owner, held, tonumber(most), tonumber(most_of_owner))
  if no_room then
    redis.call('ZREM', all, id)
    return {no_room}
  end
  if owner ~= OPEN then
    call('HSET', window_key(queue), owner, 1)
  end
  local more = trace ~= '' and {'trace', trace} or {}
  if reply_to ~= '' then
    more[#more + 1], more[#more + 2] = 'reply_to', reply_to
  end
  call('HSET', key, 'id', id, 'owner', owner, 'kind', kind, 'queue', queue, 'timeout', timeout, 'request', request,
    'asked', asked, 'seq', seq, 'created', at, 'ttl', ttl, 'product_bytes', product_bytes, 'held', held, 'in_record', 'ab',
    'batch', batch, 'state', 'queued', 'version', '1', 'attempt', '1', 'runs', '0', 'number', number, 'first', number,
    'published', at, 'queued', at, unpack(more))
  call('HSET', matrices_key(id), 'a', a, 'b', b)
  call('ZADD', queued_key(queue), number, id)
  call('LPUSH', LISTS .. queue, message)
  call('ZADD', batch_key({queue = queue, batch = batch}), number, id)
  call('ZADD', state_key('queued', owner), seq, id)
  call('HSET', counts, number_field, number, 'waiting', waiting + 1, 'seq', seq)
  is_recorded(owner, most_ended, most_ended_of_owner)
  forget_oldest()
  return {{'recorded', seq, at, number, waiting == 0 and 0 or place_of(queue, owner, number, id)}}
end

local function main(ARGV)
  local usual = tonumber(ARGV[2]) == STORED - 1 and #ARGV == STORED + 3 and record_usual(ARGV)
  if usual then
    return usual
  end
  local replies, i = {}, 2
  while i < #ARGV - 2 do
    local last = i + tonumber(ARGV[i])
    replies[#replies + 1] = record(ARGV, i + 1, last, #replies == 0 and last == #ARGV - 2)
    i = last + 1
  end
  forget_oldest()
  carry_out()
  tell_places(replies)
  return replies
end

return main(ARGV)
